//! Decisions, waiters, refunds and time beside holds, by the word and by the log.

use super::*;
use tollgate::Algorithm;

fn by(algorithm: Algorithm, quota: Quota) -> (Arc<RateLimiter>, ManualClock) {
    let clock = Clock::manual();
    clock.advance(HOUR);
    let limiter = Arc::new(RateLimiter::new(quota).algorithm(algorithm).clock(&clock));
    assert_eq!(limiter.snapshot().waiting, 0);
    (limiter, clock)
}

const BOTH: [Algorithm; 2] = [Algorithm::Gcra, Algorithm::SlidingLog];

/// There is room for both at every moment: a charge that becomes a hold is never missing, and never there
/// twice.
#[test]
fn hold_beside_a_try_that_fits_refuses_and_loses_nothing() {
    for algorithm in BOTH {
        // With three preemptions it takes minutes.
        model_with(2, move || {
            let (limiter, _clock) = by(algorithm, Quota::per_hour(3).burst(3));
            let other = {
                let limiter = Arc::clone(&limiter);
                thread::spawn(move || limiter.try_acquire().unwrap())
            };
            let hold = limiter.hold(limiter.try_acquire_many(2).unwrap());
            let _charge = other.join().unwrap();
            assert!(limiter.try_acquire().is_err());
            hold.settle(1);
            assert_eq!(limiter.snapshot().available, 1);
        });
    }
}

#[test]
fn settle_beside_tries_admits_them_only_after_it() {
    for algorithm in BOTH {
        model(move || {
            let (limiter, _clock) = by(algorithm, Quota::per_hour(2).burst(2));
            let hold = limiter.hold(limiter.try_acquire_many(2).unwrap());
            let tries = {
                let limiter = Arc::clone(&limiter);
                thread::spawn(move || {
                    [limiter.try_acquire().is_ok(), limiter.try_acquire().is_ok()]
                })
            };
            hold.settle(1);
            let admitted = tries.join().unwrap().iter().filter(|it| **it).count();
            assert!(admitted <= 1);
            assert_eq!(limiter.snapshot().available, 1 - admitted as u64);
        });
    }
}

#[test]
fn settle_and_a_joiner_do_not_miss_each_other() {
    for algorithm in BOTH {
        model(move || {
            let (limiter, _clock) = by(algorithm, Quota::per_hour(3).burst(3));
            let hold = limiter.hold(limiter.try_acquire_many(3).unwrap());
            let joiner = join(&limiter, 2);
            hold.settle(1);
            // No time has passed.
            charge_of(joiner.join().unwrap());
            let snapshot = limiter.snapshot();
            assert_eq!((snapshot.available, snapshot.waiting), (0, 0));
        });
    }
}

/// What was used is paid off by time, whenever that passes, and whichever of the two is settled first.
#[test]
fn settle_of_two_holds_beside_passing_time_counts_what_was_used() {
    for algorithm in BOTH {
        model(move || {
            let (limiter, clock) = by(algorithm, Quota::per_second(4).burst(4));
            let hold = limiter.hold(limiter.try_acquire_many(2).unwrap());
            let other = limiter.hold(limiter.try_acquire_many(2).unwrap());
            let settles = thread::spawn(move || other.settle(1));
            clock.advance(SECOND);
            hold.settle(2);
            settles.join().unwrap();
            assert_eq!(limiter.snapshot().available, 4);
            limiter.try_acquire_many(4).unwrap();
            assert!(limiter.try_acquire().is_err());
        });
    }
}

#[test]
fn drop_of_a_hold_beside_a_waiter_that_leaves_admits_the_next() {
    model(|| {
        let (limiter, _clock) = by(Algorithm::Gcra, Quota::per_hour(4).burst(4));
        let hold = limiter.hold(limiter.try_acquire_many(3).unwrap());
        let first = Waiter::new(&limiter, 4).queued();
        let second = Waiter::new(&limiter, 1).queued();
        let leaves = thread::spawn(move || drop(first));
        drop(hold);
        leaves.join().unwrap();
        second.output().unwrap();
        assert_eq!(limiter.snapshot().available, 0);
    });
}
