//! The quota changes under load.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Algorithm, Clock, ErrorKind, Quota, QuotaChange, RateLimiter};

use super::{LOG, audit, entry, in_micros, limiter, tries};
use crate::support::audit::Allowance;
use crate::support::random::on_threads;

/// Changes the quota back and forth until it is to stop, and ends with the fast one. Returns from when
/// on which may have been in force.
fn toggle(
    limiter: &RateLimiter,
    [slow, fast]: [Quota; 2],
    until: &AtomicBool,
    progress: &AtomicUsize,
) -> Allowance {
    let clock = Clock::system();
    let mut allowance = Allowance::of(slow);
    while !until.load(Ordering::SeqCst) {
        // In doubt it is the faster one: it begins before the call, and ends after it.
        allowance.change(clock.now().as_nanos(), fast);
        limiter.set_quota(fast);
        let before = progress.load(Ordering::SeqCst);
        while progress.load(Ordering::SeqCst) == before && !until.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        limiter.set_quota(slow);
        allowance.change(clock.now().as_nanos(), slow);
    }
    allowance.change(clock.now().as_nanos(), fast);
    limiter.set_quota(fast);
    allowance
}

/// Waits under a quota that goes from one an hour to a thousand a second and back: they are due by the
/// new quota each time, and when it is fast at last, none is left behind. And tries: what was decided
/// by one quota is not charged under another.
#[test]
fn quota_from_slow_to_fast_and_back_strands_nobody_and_keeps_the_promise() {
    let hourly = (Quota::per_hour(1), Quota::per_second(1000), true);
    let seconds = (Quota::per_second(3), Quota::per_second(700_000), false);
    for ((slow, fast, waits), burst) in [(hourly, 1), (hourly, 5), (seconds, 20)] {
        let quotas = [slow.burst(burst), fast.burst(burst)];
        let limiter = RateLimiter::new(quotas[0]);
        let (enough, progress) = (AtomicBool::new(false), AtomicUsize::new(0));
        let each = if waits { 150 } else { 20_000 };
        let (allowance, charged) = thread::scope(|scope| {
            let toggling = scope.spawn(|| toggle(&limiter, quotas, &enough, &progress));
            let charged = on_threads(4, |random| {
                let mut charged = Vec::new();
                for _ in 0..each {
                    if waits {
                        charged.push(entry(&limiter.acquire().wait().unwrap()));
                    } else {
                        charged.extend(tries(&limiter, random, 1, 3));
                    }
                    // Towards the end nobody is left to make progress.
                    if progress.fetch_add(1, Ordering::SeqCst) >= 2 * each {
                        enough.store(true, Ordering::SeqCst);
                    }
                }
                charged
            })
            .concat();
            enough.store(true, Ordering::SeqCst);
            (toggling.join().unwrap(), charged)
        });
        assert!(if waits {
            charged.len() == 4 * each
        } else {
            !charged.is_empty()
        });
        assert_eq!(limiter.snapshot().waiting, 0);
        assert_eq!(allowance.audit(&charged), Ok(()));
    }
}

/// Time stands still, and all is paid off before each change, so that what is owed is the same number
/// under both quotas. A try that was begun under one of them must not succeed under the other, where
/// it would have taken what takes an hour.
#[test]
fn try_acquire_begun_before_a_change_takes_nothing_after_it() {
    let (slow, fast) = (Quota::per_hour(1), Quota::per_second(1000));
    let clock = Clock::manual();
    clock.advance(Duration::from_secs(100));
    let limiter = RateLimiter::new(slow).clock(&clock);
    let enough = AtomicBool::new(false);
    let taken_too_much = thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !enough.load(Ordering::SeqCst) {
                    let _ = limiter.try_acquire();
                }
            });
        }
        let taken_too_much = (0..200_000).any(|_| {
            limiter.set_quota(slow);
            limiter.set_quota(fast);
            let taken_too_much = limiter.peek().reset_after > Duration::from_millis(1);
            clock.advance(Duration::from_millis(1));
            taken_too_much
        });
        enough.store(true, Ordering::SeqCst);
        taken_too_much
    });
    assert!(!taken_too_much);
}

/// Written again and again under load, and beyond the room there is: what was spent stays
/// spent each time.
#[test]
fn quota_that_changes_under_load_admits_no_more_than_it_says() {
    for (count, micros) in [(1, 30), (3, 100), (50, 400), (50, 5000)] {
        let quota = |count| in_micros(count, micros);
        let limiter = limiter(LOG, quota(count));
        let enough = AtomicBool::new(false);
        let (most, charged) = thread::scope(|scope| {
            let changing = scope.spawn(|| {
                let mut most = count;
                for number in 0.. {
                    if enough.load(Ordering::SeqCst) {
                        break;
                    }
                    most += u64::from(number % 100 == 99 && most < count + 20);
                    limiter.set_quota_with(quota(most), QuotaChange::KeepSpent);
                }
                most
            });
            let charged = on_threads(3, |random| {
                let mut charged = Vec::new();
                for _ in 0..20_000 {
                    let cost = u64::from(1 + random.below(12) / 11).min(count);
                    match limiter.try_acquire_many(cost) {
                        Ok(charge) => charged.push(entry(&charge)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::RateLimited),
                    }
                }
                charged
            })
            .concat();
            enough.store(true, Ordering::SeqCst);
            (changing.join().unwrap(), charged)
        });
        assert_eq!(audit(LOG, quota(most), &charged), Ok(()));
    }
}

/// Time stands still, so every charge is at this tick, also of a call that was overtaken by
/// a change of the quota, or by a refund, before it wrote its own.
#[test]
fn charge_overtaken_by_a_change_is_at_no_earlier_tick() {
    const NOW: u64 = 1_000_000_000_000;
    for (count, refunds) in [(1, false), (4, false), (4, true), (64, true)] {
        let clock = Clock::manual();
        clock.advance(Duration::from_nanos(NOW));
        let quota = Quota::per_second(count);
        let limiter = RateLimiter::new(quota)
            .algorithm(Algorithm::SlidingLog)
            .clock(&clock);
        let enough = AtomicBool::new(false);
        let charged = thread::scope(|scope| {
            scope.spawn(|| {
                // One more is free each time.
                let mut larger = count;
                while !enough.load(Ordering::SeqCst) {
                    for charge in (0..count).filter_map(|_| limiter.try_acquire().ok()) {
                        if refunds {
                            limiter.refund(charge);
                        }
                    }
                    larger += 1;
                    limiter.set_quota(Quota::per_second(larger));
                }
            });
            let charged = on_threads(3, |_| {
                let (mut tries, mut charged) = (0, Vec::new());
                // However long it takes until there is one to be had.
                while tries < 4_000 || charged.is_empty() {
                    charged.extend(limiter.try_acquire().map(|charge| entry(&charge)));
                    tries += 1;
                }
                charged
            })
            .concat();
            enough.store(true, Ordering::SeqCst);
            charged
        });
        assert!(charged.iter().all(|(at, _)| *at == NOW));
    }
}

/// What was charged under one quota is not given back under the next, in which nothing is owed.
#[test]
fn refund_of_a_charge_beside_a_change_gives_nothing_of_others_back() {
    let clock = Clock::manual();
    let quota = Quota::per_second(3);
    let limiter = RateLimiter::new(quota)
        .algorithm(Algorithm::SlidingLog)
        .clock(&clock);
    const ROUNDS: usize = 1_500;
    let pause = Barrier::new(4);
    let too_many = thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    pause.wait();
                    let charge = limiter.try_acquire();
                    pause.wait();
                    pause.wait();
                    charge.into_iter().for_each(|charge| limiter.refund(charge));
                    pause.wait();
                }
            });
        }
        let rounds = (0..ROUNDS as u64).filter(|round| {
            pause.wait();
            // Only what the others charge just now is carried over.
            clock.advance(2 * quota.period());
            let period = quota.period() + Duration::from_nanos(round % 2);
            limiter.set_quota(Quota::new(quota.count(), period));
            pause.wait();
            let mine = (0..3).filter_map(|_| limiter.try_acquire().ok()).count();
            pause.wait();
            pause.wait();
            // What the others have of the new quota is given back, and no more than that.
            limiter.snapshot().available > 3 - mine as u64
        });
        rounds.count()
    });
    assert_eq!(too_many, 0);
}
