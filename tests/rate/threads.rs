//! Limiters in real threads, on the clock of the system, audited afterwards by the ticks of the
//! charges; also when the quota changes under load.
//!
//! Nothing here depends on speed: each test ends when all of its work was done, or never.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{
    Algorithm, Charge, Clock, ErrorKind, MissedTickBehavior, Quota, QuotaChange, RateLimiter,
};

use crate::audit::{Entry, estimate, fullest};
use crate::rate_model::kept::Window;
use crate::support::Waiter;
use crate::support::audit::Allowance;
use crate::support::random::{Random, on_threads};

const GCRA: Algorithm = Algorithm::Gcra;
const LOG: Algorithm = Algorithm::SlidingLog;
const WINDOW: Algorithm = Algorithm::SlidingWindow;

fn limiter(algorithm: Algorithm, quota: Quota) -> RateLimiter {
    RateLimiter::new(quota).algorithm(algorithm)
}

fn in_micros(count: u64, micros: u64) -> Quota {
    Quota::new(count, Duration::from_micros(micros))
}

fn entry(charge: &Charge) -> Entry {
    (charge.at().as_nanos(), charge.cost())
}

/// Whether charges keep the promise of an algorithm.
fn audit(algorithm: Algorithm, quota: Quota, charged: &[Entry]) -> Result<(), String> {
    let (count, period) = (quota.count(), quota.period().as_nanos() as u64);
    match algorithm {
        WINDOW => estimate(charged, count, period),
        LOG => match fullest(charged, period) {
            found if found <= count => Ok(()),
            found => Err(format!("{found} of {count} in {period} ns")),
        },
        _ => Allowance::of(quota).audit(charged),
    }
}

/// What can be had at once: the burst, or the count.
fn at_once(algorithm: Algorithm, quota: Quota) -> u64 {
    match algorithm {
        GCRA => quota.max_burst(),
        _ => quota.count(),
    }
}

/// Makes tries, some for a higher cost, and returns what was charged.
fn tries(limiter: &RateLimiter, random: &mut Random, times: usize, most: u64) -> Vec<Entry> {
    let mut charged = Vec::new();
    for _ in 0..times {
        let cost = u64::from(1 + random.below(most as u32));
        match limiter.try_acquire_many(cost) {
            Ok(charge) => charged.push(entry(&charge)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::RateLimited),
        }
    }
    charged
}

#[test]
fn tries_keep_the_promise() {
    let gcra = [
        Quota::per_second(1_000_000).burst(100),
        Quota::per_second(700_000_000).burst(5),
        Quota::per_second(333_333).burst(3),
        Quota::per_second(1000).burst(10),
        Quota::per_hour(1).burst(50),
    ];
    // With one place all calls want the same; with many, slots are passed that are not written yet.
    let sliding = [(1, 2), (2, 20), (50, 200), (50, 5000), (1000, 300)];
    let sliding = sliding.map(|(count, micros)| in_micros(count, micros));
    for (algorithm, quotas, times, most) in [
        (GCRA, gcra, 20_000, 4),
        (LOG, sliding, 6_000, 1),
        (LOG, sliding, 6_000, 3),
        (WINDOW, sliding, 8_000, 3),
    ] {
        for quota in quotas {
            let limiter = limiter(algorithm, quota);
            let at_once = at_once(algorithm, quota);
            let most = at_once.min(most);
            let charged = on_threads(4, |random| tries(&limiter, random, times, most)).concat();
            assert_eq!(
                audit(algorithm, quota, &charged),
                Ok(()),
                "{algorithm} {quota}"
            );
            // So many were to be had, but for what no longer fitted.
            let total: u64 = charged.iter().map(|(_, cost)| cost).sum();
            assert!(total + most > at_once, "{algorithm} {quota}");
        }
    }
}

/// No charge is lost in a race, and none is made twice; and the auditors would find one more.
#[test]
fn try_acquire_by_many_threads_admits_exactly_as_many_as_there_are() {
    for algorithm in [GCRA, LOG, WINDOW] {
        for count in [1, 7, 3000] {
            let quota = Quota::new(count, Duration::from_secs(36_000 * count)).burst(count);
            let limiter = limiter(algorithm, quota);
            let start = Barrier::new(4);
            let mut charged = on_threads(4, |random| {
                start.wait();
                tries(&limiter, random, 2000, 1)
            })
            .concat();
            assert_eq!(
                (charged.len() as u64, limiter.snapshot().available),
                (count, 0)
            );
            assert_eq!(audit(algorithm, quota, &charged), Ok(()));
            // Less than ten hours have passed, or this machine is not fit for tests.
            charged.push(charged[0]);
            assert!(audit(algorithm, quota, &charged).is_err(), "{algorithm}");
        }
    }
}

/// Threads that find a window over begin the next one once, and share what it has.
#[test]
fn windows_that_threads_begin_together_admit_exactly_what_there_is() {
    let pauses = [200, 150, 30, 70, 400].map(Duration::from_micros);
    let clock = Clock::manual();
    let limiter = limiter(WINDOW, in_micros(100, 100)).clock(&clock);
    let barrier = Barrier::new(4);
    let pauses = pauses.repeat(400);
    let admitted = on_threads(4, |random| {
        let round = |pause: &Duration| {
            if barrier.wait().is_leader() {
                clock.advance(*pause);
            }
            barrier.wait();
            tries(&limiter, random, 60, 1).len() as u64
        };
        pauses.iter().map(round).collect::<Vec<_>>()
    });
    let (mut model, mut now) = (Window::new(100, 100_000), 0);
    for (round, pause) in pauses.iter().enumerate() {
        now += pause.as_nanos() as u64;
        let free = 100 - model.used(now);
        let taken: u64 = admitted.iter().map(|admitted| admitted[round]).sum();
        assert_eq!((round, taken), (round, free));
        model.book(now, taken);
    }
}

/// Tries do not keep those that wait from their turn, nor get in before them.
#[test]
fn waiting_threads_keep_the_promise_and_all_get_through() {
    let burst = MissedTickBehavior::Burst { max: u64::MAX };
    for (algorithm, quota, missed) in [
        (GCRA, Quota::per_second(100_000), None),
        (GCRA, Quota::per_second(700_000_000), None),
        (
            GCRA,
            Quota::per_second(100_000).burst(7),
            Some(MissedTickBehavior::Delay),
        ),
        (GCRA, Quota::per_second(200_000).burst(4), Some(burst)),
        (LOG, in_micros(50, 200), None),
        (LOG, in_micros(50, 2000), None),
        (WINDOW, in_micros(50, 200), None),
        (WINDOW, in_micros(10, 100), None),
    ] {
        let mut limiter = limiter(algorithm, quota);
        if let Some(missed) = missed {
            limiter = limiter.missed_tick(missed);
        }
        let most = at_once(algorithm, quota).min(4) as u32;
        let charged = on_threads(4, |random| {
            let (mut charged, mut last) = (Vec::new(), 0);
            for _ in 0..500 {
                let cost = u64::from(1 + random.below(most));
                if random.below(3) == 0 {
                    charged.extend(limiter.try_acquire_many(cost).map(|charge| entry(&charge)));
                    continue;
                }
                let charge = limiter.acquire_many(cost).wait().unwrap();
                let at = charge.at().as_nanos();
                // One thread's waits go forward; but another one may grant, and two may disagree by
                // a microsecond.
                assert!(at + 1_000 >= last, "{at} after {last}");
                last = at;
                charged.push(entry(&charge));
            }
            charged
        })
        .concat();
        assert_eq!(limiter.snapshot().waiting, 0);
        assert_eq!(
            audit(algorithm, quota, &charged),
            Ok(()),
            "{algorithm} {quota}"
        );
    }
}

/// By what was kept, however many were given back in between, early, late and in any order.
#[test]
fn refunds_admit_no_more_than_was_kept() {
    for (algorithm, quota) in [
        (GCRA, Quota::per_second(1_000_000).burst(30)),
        (GCRA, Quota::per_second(20_000).burst(8)),
        (GCRA, Quota::per_hour(1).burst(40)),
        (LOG, in_micros(1, 5)),
        (LOG, in_micros(8, 300)),
        (LOG, in_micros(50, 5000)),
    ] {
        let limiter = limiter(algorithm, quota);
        let most = at_once(algorithm, quota).min(3) as u32;
        let charged = on_threads(4, |random| {
            let (mut charged, mut held) = (Vec::new(), Vec::new());
            for _ in 0..10_000 {
                let cost = u64::from(1 + random.below(most));
                held.extend(limiter.try_acquire_many(cost).ok());
                if held.len() > random.below(6) as usize {
                    let charge: Charge = held.swap_remove(random.below(held.len() as u32) as usize);
                    if random.below(2) == 0 {
                        limiter.refund(charge);
                    } else {
                        charged.push(entry(&charge));
                    }
                }
            }
            charged.extend(held.iter().map(entry));
            charged
        })
        .concat();
        assert_eq!(
            audit(algorithm, quota, &charged),
            Ok(()),
            "{algorithm} {quota}"
        );
    }
}

/// With nothing paid off in between, all that is given back is there again: of as many as are told
/// apart.
#[test]
fn nothing_is_lost_when_all_is_given_back() {
    for algorithm in [GCRA, LOG, WINDOW] {
        for _ in 0..25 {
            let quota = Quota::new(1000, Duration::from_secs(3_600_000)).burst(1000);
            let limiter = limiter(algorithm, quota);
            let taken = Barrier::new(4);
            on_threads(4, |random| {
                let mut held: Vec<_> = (0..30)
                    .map(|_| limiter.try_acquire_many(1 + u64::from(random.below(5))))
                    .collect();
                taken.wait();
                while !held.is_empty() {
                    let charge = held.swap_remove(random.below(held.len() as u32) as usize);
                    limiter.refund(charge.expect("at most 600 of 1000"));
                }
            });
            assert_eq!(limiter.snapshot().available, 1000);
        }
    }
}

/// Waits, tries, refunds and cancelled waits together. At the end the queue is empty, and moves on.
#[test]
fn waits_given_up_and_charges_given_back_strand_nobody() {
    let quota = Quota::per_second(50_000).burst(6);
    let limiter = RateLimiter::new(quota);
    let charged = on_threads(4, |random| {
        let mut charged = Vec::new();
        for _ in 0..800 {
            let cost = u64::from(1 + random.below(6));
            let result = match random.below(4) {
                0 => limiter.try_acquire_many(cost),
                1 => {
                    drop(Waiter::new(limiter.acquire_many(cost)).poll());
                    continue;
                }
                2 => {
                    let short = Duration::from_micros(u64::from(random.below(200)));
                    limiter.acquire_many(cost).timeout(short).wait()
                }
                _ => limiter.acquire_many(cost).wait(),
            };
            match result {
                Ok(charge) if random.below(3) == 0 => limiter.refund(charge),
                Ok(charge) => charged.push(entry(&charge)),
                Err(error) => assert!(matches!(
                    error.kind(),
                    ErrorKind::RateLimited | ErrorKind::TimedOut
                )),
            }
        }
        charged
    })
    .concat();
    assert_eq!(limiter.snapshot().waiting, 0);
    assert_eq!(audit(GCRA, quota, &charged), Ok(()));
    assert_eq!(limiter.acquire_many(6).wait().unwrap().cost(), 6);
}

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
