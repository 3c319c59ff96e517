//! In real threads, on the clock of the system, audited afterwards by the ticks of the charges.
//!
//! Nothing here depends on speed: each test ends when all of its work was done, or never.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Algorithm, Charge, Clock, ErrorKind, Quota, QuotaChange, RateLimiter};

use crate::audit::{Entry, estimate, fullest};
use crate::support::random::on_threads;

fn entry(charge: &Charge) -> Entry {
    (charge.at().as_nanos(), charge.cost())
}

fn limiter(algorithm: Algorithm, count: u64, micros: u64) -> RateLimiter {
    RateLimiter::new(Quota::new(count, Duration::from_micros(micros))).algorithm(algorithm)
}

/// With one place everybody comes to the same; with many, places are passed that are not written.
const SHAPES: [(u64, u64); 5] = [(1, 2), (2, 20), (50, 200), (50, 5000), (1000, 300)];

#[test]
fn tries_are_never_too_many_in_a_period() {
    let algorithm = Algorithm::SlidingLog;
    for (count, micros) in SHAPES {
        for most in [1, 3] {
            let limiter = limiter(algorithm, count, micros);
            let charged = on_threads(4, |random| {
                let mut charged = Vec::new();
                for _ in 0..6_000 {
                    let cost = u64::from(1 + random.below(most)).min(count);
                    match limiter.try_acquire_many(cost) {
                        Ok(charge) => charged.push(entry(&charge)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::RateLimited),
                    }
                }
                charged
            })
            .concat();
            let found = fullest(&charged, micros * 1000);
            assert!(found <= count, "{found} of {count} in {micros} us");
        }
    }
}

#[test]
fn tries_keep_the_estimate_of_the_window() {
    for (count, micros) in SHAPES {
        let limiter = limiter(Algorithm::SlidingWindow, count, micros);
        let charged = on_threads(4, |random| {
            let mut charged = Vec::new();
            for _ in 0..8_000 {
                let cost = u64::from(1 + random.below(3)).min(count);
                match limiter.try_acquire_many(cost) {
                    Ok(charge) => charged.push(entry(&charge)),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::RateLimited),
                }
            }
            charged
        })
        .concat();
        assert_eq!(estimate(&charged, count, micros * 1000), Ok(()));
    }
}

#[test]
fn waiting_threads_all_get_through_and_are_never_too_many() {
    for algorithm in [Algorithm::SlidingLog, Algorithm::SlidingWindow] {
        for (count, micros) in [(50, 200), (10, 100), (50, 2000)] {
            let limiter = limiter(algorithm, count, micros);
            let charged = on_threads(4, |random| {
                let mut charged = Vec::new();
                for _ in 0..300 {
                    let cost = u64::from(1 + random.below(4));
                    let result = match random.below(3) {
                        0 => limiter.try_acquire_many(cost),
                        _ => limiter.acquire_many(cost).wait(),
                    };
                    match result {
                        Ok(charge) => charged.push(entry(&charge)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::RateLimited),
                    }
                }
                charged
            })
            .concat();
            assert_eq!(limiter.waiting(), 0);
            if algorithm == Algorithm::SlidingWindow {
                assert_eq!(estimate(&charged, count, micros * 1000), Ok(()));
            } else {
                assert!(fullest(&charged, micros * 1000) <= count);
            }
        }
    }
}

/// No charge is lost in a race, and none is made twice.
#[test]
fn of_many_threads_exactly_as_many_are_let_in_as_there_are() {
    for algorithm in [Algorithm::SlidingLog, Algorithm::SlidingWindow] {
        for count in [1, 7, 3000] {
            let limiter = RateLimiter::new(Quota::new(count, Duration::from_secs(36_000)))
                .algorithm(algorithm);
            let start = Barrier::new(4);
            let mut charged = on_threads(4, |_| {
                start.wait();
                let tries = (0..2000).filter_map(|_| limiter.try_acquire().ok());
                tries.map(|charge| entry(&charge)).collect::<Vec<_>>()
            })
            .concat();
            assert_eq!(charged.len() as u64, count);
            assert_eq!(limiter.available(), 0);
            // Less than ten hours have passed, or this machine is not fit for tests.
            assert_eq!(fullest(&charged, 36_000_000_000_000), count);
            charged.push(charged[0]);
            assert_eq!(fullest(&charged, 36_000_000_000_000), count + 1);
        }
    }
}

#[test]
fn refunds_never_let_too_many_in() {
    let algorithm = Algorithm::SlidingLog;
    for (count, micros) in [(1, 5), (8, 300), (50, 5000)] {
        let limiter = limiter(algorithm, count, micros);
        let charged = on_threads(4, |random| {
            let (mut charged, mut held) = (Vec::new(), Vec::new());
            for _ in 0..8_000 {
                let cost = u64::from(1 + random.below(2)).min(count);
                held.extend(limiter.try_acquire_many(cost).ok());
                if held.len() > random.below(4) as usize {
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
        let found = fullest(&charged, micros * 1000);
        assert!(found <= count, "{found} of {count} in {micros} us");
    }
}

#[test]
fn nothing_is_lost_when_all_is_given_back() {
    for algorithm in [Algorithm::SlidingLog, Algorithm::SlidingWindow] {
        for _ in 0..20 {
            let quota = Quota::new(400, Duration::from_secs(360_000));
            let limiter = RateLimiter::new(quota).algorithm(algorithm);
            let taken = Barrier::new(4);
            on_threads(4, |random| {
                let mut held: Vec<_> = (0..30)
                    .map(|_| limiter.try_acquire_many(1 + u64::from(random.below(3))))
                    .collect();
                taken.wait();
                while !held.is_empty() {
                    let charge = held.swap_remove(random.below(held.len() as u32) as usize);
                    limiter.refund(charge.expect("at most 360 of 400"));
                }
            });
            assert_eq!(limiter.available(), 400);
        }
    }
}

/// Written anew again and again under load, and beyond the room there is: what was spent stays
/// spent each time.
#[test]
fn a_quota_that_changes_under_load_lets_no_more_in_than_it_says() {
    let algorithm = Algorithm::SlidingLog;
    for (count, micros) in [(1, 30), (3, 100), (50, 400), (50, 5000)] {
        let quota = |count| Quota::new(count, Duration::from_micros(micros));
        let limiter = limiter(algorithm, count, micros);
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
        let found = fullest(&charged, micros * 1000);
        assert!(found <= most, "{found} of {most} in {micros} us");
    }
}

/// Time stands still, so every charge is at this tick, also of whoever was overtaken by a change
/// of the quota, or by a refund, before it has written down its own.
#[test]
fn whoever_is_overtaken_was_charged_no_earlier() {
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
fn who_is_charged_while_the_quota_changes_gives_nothing_back_that_is_not_its_own() {
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
            limiter.available() > 3 - mine as u64
        });
        rounds.count()
    });
    assert_eq!(too_many, 0);
}
