//! Limiters in real threads, on the system clock, audited afterwards with the ticks of the charges; also
//! while the quota changes under load. Loom and shuttle test such calls under chosen schedules.
//!
//! Nothing here depends on speed: each test ends when all of its work was done, or never.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::rate::{Charge, MissedTickBehavior};
use tollgate::{Algorithm, Clock, ErrorKind, Quota, RateLimiter};

use crate::support::Waiter;
use crate::support::audit::{Allowance, Entry, fullest};
use crate::support::random::{Random, on_threads};
use crate::support::reference::owes_nothing;

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

/// Checks that charges keep the promise of an algorithm.
fn audit(algorithm: Algorithm, quota: Quota, charged: &[Entry]) -> Result<(), String> {
    let (count, period) = (quota.count(), quota.period().as_nanos() as u64);
    match algorithm {
        WINDOW => {
            let (mut window, mut charged) = (owes_nothing(algorithm, quota), charged.to_vec());
            charged.sort_unstable();
            let too_many = |(at, cost): &Entry| {
                let (at, cost) = (i128::from(*at), i128::from(*cost));
                let fits = window.fits(at, cost);
                window.charge(0, at, false, cost);
                !fits
            };
            let found = charged.into_iter().find(too_many);
            found.map_or(Ok(()), |charge| Err(format!("too many at {charge:?}")))
        }
        LOG => match fullest(charged, period) {
            found if found <= count => Ok(()),
            found => Err(format!("{found} of {count} in {period} ns")),
        },
        _ => Allowance::of(quota).audit(charged),
    }
}

/// A full schedule passes the audit, and with one charge more anywhere it does not.
#[test]
fn one_charge_too_many_is_found_wherever_it_is() {
    let quota = Quota::new(5, Duration::from_nanos(10));
    let full: Vec<Entry> = (10..30).map(|number| (20 * number, 5)).collect();
    for algorithm in [LOG, WINDOW] {
        assert_eq!(audit(algorithm, quota, &full), Ok(()));
        for (at, _) in &full {
            let seeded = [&full[..], &[(*at, 1)]].concat();
            let found = audit(algorithm, quota, &seeded);
            assert!(found.is_err(), "{algorithm} {at}");
        }
    }
}

/// Returns the most that is admitted at once: the burst, or the count.
fn at_once(algorithm: Algorithm, quota: Quota) -> u64 {
    match algorithm {
        GCRA => quota.max_burst(),
        _ => quota.count(),
    }
}

/// Makes tries, some with a higher cost, and returns the charges.
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

/// No charge is lost in a race, and none is made twice.
#[test]
fn tries_keep_the_promise() {
    let gcra = [
        Quota::new(3000, Duration::from_secs(108_000_000)).burst(3000),
        Quota::per_second(1_000_000).burst(100),
        Quota::per_second(700_000_000).burst(5),
        Quota::per_second(333_333).burst(3),
        Quota::per_second(1000).burst(10),
        Quota::per_hour(1).burst(50),
    ];
    // With one slot all calls compete for it; with many, calls skip slots that are not written yet.
    let sliding = [
        (1, 2),
        (2, 20),
        (50, 200),
        (50, 5000),
        (1000, 300),
        (3000, 36_000_000_000),
    ];
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
            // Of what is paid off in an hour or more exactly as many are admitted as go at once.
            let exact = quota.period() >= Duration::from_secs(3600);
            let most = if exact { 1 } else { at_once.min(most) };
            let charged = on_threads(4, |random| tries(&limiter, random, times, most)).concat();
            assert_eq!(
                audit(algorithm, quota, &charged),
                Ok(()),
                "{algorithm} {quota}"
            );
            // This many were available, except for a rest that no longer fitted.
            let total: u64 = charged.iter().map(|(_, cost)| cost).sum();
            assert!(total + most > at_once, "{algorithm} {quota}");
            let left = (at_once - total.min(at_once), limiter.snapshot().available);
            assert!(!exact || left == (0, 0), "{algorithm} {quota}: {left:?}");
        }
    }
}

/// Tries do not delay the turns of waiters, nor get in before them; waits are given up, even after their grant, and
/// charges are given back early, late and in any order. The kept charges fulfil the promise, and at the end the
/// queue is empty, and still works.
#[test]
fn calls_of_every_kind_keep_the_promise_and_strand_nobody() {
    let burst = MissedTickBehavior::Burst { max: u64::MAX };
    let per_second = Quota::per_second;
    for (algorithm, quota, missed) in [
        (GCRA, per_second(100_000), None),
        (GCRA, per_second(700_000_000), None),
        (GCRA, per_second(50_000).burst(6), None),
        (GCRA, per_second(1_000_000).burst(30), None),
        (
            GCRA,
            per_second(100_000).burst(7),
            Some(MissedTickBehavior::Delay),
        ),
        (GCRA, per_second(200_000).burst(4), Some(burst)),
        (LOG, in_micros(1, 5), None),
        (LOG, in_micros(8, 300), None),
        (LOG, in_micros(50, 200), None),
        (LOG, in_micros(50, 2000), None),
        (WINDOW, in_micros(50, 200), None),
        (WINDOW, in_micros(10, 100), None),
    ] {
        let mut limiter = limiter(algorithm, quota);
        if let Some(missed) = missed {
            limiter = limiter.missed_tick(missed);
        }
        let at_once = at_once(algorithm, quota);
        let charged = on_threads(4, |random| {
            let (mut charged, mut held, mut last) = (Vec::new(), Vec::new(), 0);
            for _ in 0..1500 {
                let cost = u64::from(1 + random.below(at_once.min(6) as u32));
                let result = match random.below(5) {
                    0 | 1 => limiter.try_acquire_many(cost),
                    2 => {
                        drop(Waiter::new(limiter.acquire_many(cost)).poll());
                        continue;
                    }
                    3 => {
                        let short = Duration::from_micros(u64::from(random.below(200)));
                        limiter.acquire_many(cost).timeout(short).wait()
                    }
                    _ => limiter.acquire_many(cost).wait(),
                };
                match result {
                    Ok(charge) => {
                        // One thread's charges advance; but another thread may grant, and two may
                        // disagree by a microsecond.
                        let at = charge.at().as_nanos();
                        assert!(at + 1_000 >= last, "{at} after {last}");
                        last = at;
                        held.push(charge);
                    }
                    Err(error) => assert!(matches!(
                        error.kind(),
                        ErrorKind::RateLimited | ErrorKind::TimedOut
                    )),
                }
                if held.len() > random.below(6) as usize {
                    let charge: Charge = held.swap_remove(random.below(held.len() as u32) as usize);
                    match random.below(2) {
                        0 => limiter.refund(charge),
                        _ => charged.push(entry(&charge)),
                    }
                }
            }
            charged.extend(held.iter().map(entry));
            charged
        })
        .concat();
        assert_eq!(limiter.snapshot().waiting, 0);
        let kept = audit(algorithm, quota, &charged);
        assert_eq!(kept, Ok(()), "{algorithm} {quota}");
        let whole = limiter.acquire_many(at_once).wait();
        assert_eq!(whole.unwrap().cost(), at_once);
    }
}

/// With no refill in between, all refunded tokens are available again: as many as the limiter
/// distinguishes.
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

/// Changes the quota back and forth until it is to stop, and ends with the fast one. Returns from when
/// on which may have been in force. The count grows by so many at most.
fn toggle(
    limiter: &RateLimiter,
    [slow, fast]: [Quota; 2],
    more: u64,
    until: &AtomicBool,
    progress: &AtomicUsize,
) -> Allowance {
    let clock = Clock::system();
    let mut allowance = Allowance::of(slow);
    let change = |quota: Quota, round: u64| {
        let more = round.min(more);
        let larger = Quota::new(quota.count() + more, quota.period());
        limiter.set_quota(larger.burst(quota.max_burst() + more));
    };
    let mut round = 0;
    while !until.load(Ordering::SeqCst) {
        // In doubt it is the faster one: it begins before the call, and ends after it.
        allowance.change(clock.now().as_nanos(), fast);
        change(fast, round);
        let before = progress.load(Ordering::SeqCst);
        while progress.load(Ordering::SeqCst) == before && !until.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        change(slow, round);
        round += 1;
        allowance.change(clock.now().as_nanos(), slow);
    }
    allowance.change(clock.now().as_nanos(), fast);
    change(fast, round);
    allowance
}

/// Waits under a quota that goes from one an hour to a thousand a second and back: they are due by the
/// new quota each time, and when it is fast at last, none is left behind. And tries: what was decided
/// by one quota is not charged under another; what a log has spent stays spent,
/// also when there is room for more.
#[test]
fn quota_from_slow_to_fast_and_back_strands_nobody_and_keeps_the_promise() {
    let hourly = (Quota::per_hour(1), Quota::per_second(1000), true);
    let seconds = (Quota::per_second(3), Quota::per_second(700_000), false);
    let hours = |hours: u64| Quota::new(50, Duration::from_secs(3600 * hours));
    let log = (hours(2), hours(1), false);
    for (algorithm, (slow, fast, waits), burst, more) in [
        (GCRA, hourly, 1, 0),
        (GCRA, hourly, 5, 0),
        (GCRA, seconds, 20, 0),
        (LOG, log, 50, 1000),
    ] {
        let quotas = [slow.burst(burst), fast.burst(burst)];
        let limiter = limiter(algorithm, quotas[0]);
        let (enough, progress) = (AtomicBool::new(false), AtomicUsize::new(0));
        let each = if waits { 150 } else { 20_000 };
        let (allowance, charged) = thread::scope(|scope| {
            let toggling = scope.spawn(|| toggle(&limiter, quotas, more, &enough, &progress));
            let charged = on_threads(4, |random| {
                let mut charged = Vec::new();
                for number in 0..each {
                    if waits {
                        charged.push(entry(&limiter.acquire().wait().unwrap()));
                    } else {
                        charged.extend(tries(&limiter, random, 1, 3));
                        // Many rounds, also where the threads are more than the processors.
                        if number % 8 == 0 {
                            thread::yield_now();
                        }
                    }
                    // Towards the end no thread is left to make progress.
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
        let kept = match algorithm {
            GCRA => allowance.audit(&charged),
            _ => audit(algorithm, limiter.quota(), &charged),
        };
        assert_eq!(kept, Ok(()));
    }
}

/// A charge under one quota is not refunded under the next, in which nothing is owed.
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
            // Only the others' present charges are carried over.
            clock.advance(2 * quota.period());
            let period = quota.period() + Duration::from_nanos(round % 2);
            limiter.set_quota(Quota::new(quota.count(), period));
            pause.wait();
            let mine = (0..3).filter_map(|_| limiter.try_acquire().ok()).count();
            pause.wait();
            pause.wait();
            // The others' charges under the new quota are refunded, and no more than that.
            limiter.snapshot().available > 3 - mine as u64
        });
        rounds.count()
    });
    assert_eq!(too_many, 0);
}
