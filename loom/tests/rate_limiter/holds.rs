//! Decisions, waiters, refunds and time beside holds, by the word and by the log.

use super::*;

const BOTH: [Algorithm; 2] = [Algorithm::Gcra, Algorithm::SlidingLog];

/// There is room for both at every moment: a charge that becomes a hold is never missing, and never there
/// twice.
/// With three preemptions it takes minutes.
#[test]
fn hold_beside_a_try_that_fits_refuses_and_loses_nothing() {
    check_each(2, BOTH, |algorithm| {
        let (limiter, _clock) = by(algorithm, Quota::per_hour(3).burst(3));
        let other = with(&limiter, |limiter| limiter.try_acquire().unwrap());
        let hold = limiter.hold(limiter.try_acquire_many(2).unwrap());
        let _charge = other.join().unwrap();
        assert!(limiter.try_acquire().is_err());
        hold.settle(1);
        assert_eq!(limiter.snapshot().available, 1);
    });
}

#[test]
fn settle_beside_tries_admits_them_only_after_it() {
    check_each(3, BOTH, |algorithm| {
        let (limiter, _clock) = by(algorithm, Quota::per_hour(2).burst(2));
        let hold = limiter.hold(limiter.try_acquire_many(2).unwrap());
        let tries = with(&limiter, admits_twice);
        hold.settle(1);
        let admitted = tries.join().unwrap().iter().filter(|it| **it).count();
        assert!(admitted <= 1);
        assert_eq!(limiter.snapshot().available, 1 - admitted as u64);
    });
}

#[test]
fn settle_and_a_joiner_do_not_miss_each_other() {
    check_each(3, BOTH, |algorithm| {
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

/// What was used is paid off by time, whenever that passes, and whichever of the two is settled first.
#[test]
fn settle_of_two_holds_beside_passing_time_counts_what_was_used() {
    check_each(3, BOTH, |algorithm| {
        let (limiter, clock) = by(algorithm, Quota::per_second(4).burst(4));
        let hold = limiter.hold(limiter.try_acquire_many(2).unwrap());
        let other = limiter.hold(limiter.try_acquire_many(2).unwrap());
        let settles = spawn(move || other.settle(1));
        clock.advance(SECOND);
        hold.settle(2);
        join_all([settles]);
        assert_eq!(limiter.snapshot().available, 4);
        limiter.try_acquire_many(4).unwrap();
        assert!(limiter.try_acquire().is_err());
    });
}

model!(drop_of_a_hold_as_a_waiter_leaves_admits_the_next, || {
    let (limiter, _clock) = by(Algorithm::Gcra, Quota::per_hour(4).burst(4));
    let hold = limiter.hold(limiter.try_acquire_many(3).unwrap());
    let [first, second] = [4, 1].map(|cost| queued(&limiter, cost));
    let leaves = dropping(first);
    drop(hold);
    join_all([leaves]);
    second.output().unwrap();
    assert_eq!(limiter.snapshot().available, 0);
});
