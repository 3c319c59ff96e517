//! Charges of other limiters: a refund gives nothing back, and a decision is that of now.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Algorithm, Clock, Keyed, LeakyBucket, ManualClock, Quota, RateLimiter};

/// Fifty an hour, or ten in each quarter of it.
fn limiter(algorithm: Algorithm, clock: &ManualClock) -> RateLimiter {
    RateLimiter::new(Quota::per_hour(50).burst(50))
        .algorithm(algorithm)
        .clock(clock)
}

#[test]
fn refund_of_a_charge_of_another_limiter_gives_nothing_back() {
    for &algorithm in Algorithm::all() {
        let clock = Clock::manual();
        let [one, other] = [(); 2].map(|()| limiter(algorithm, &clock));
        let left = one.snapshot().available - 4;
        let charges = [(); 2].map(|()| other.try_acquire_many(2).unwrap());
        one.try_acquire_many(4).unwrap();
        let [refunded, settled] = charges;
        one.refund(refunded);
        one.settle(settled, 1);
        assert_eq!(one.snapshot().available, left, "{algorithm}");
        let own = one.try_acquire().unwrap();
        one.refund(own);
        assert_eq!(one.snapshot().available, left, "{algorithm}");
    }
}

#[test]
fn settle_of_a_charge_of_another_limiter_charges_what_is_missing() {
    let clock = Clock::manual();
    let [one, other] = [(); 2].map(|()| limiter(Algorithm::Gcra, &clock));
    one.settle(other.try_acquire_many(2).unwrap(), 5);
    assert_eq!(
        (one.snapshot().available, other.snapshot().available),
        (47, 48)
    );
}

#[test]
fn decision_of_a_charge_of_another_limiter_is_that_of_now() {
    for &algorithm in Algorithm::all() {
        let clock = Clock::manual();
        let [one, other] = [(); 2].map(|()| limiter(algorithm, &clock));
        let charge = other.try_acquire_many(3).unwrap();
        clock.advance(Duration::from_secs(60));
        one.try_acquire().unwrap();
        assert_eq!(one.decision(&charge), one.peek_many(0), "{algorithm}");
    }
}

#[test]
fn refund_of_a_charge_through_another_handle_gives_it_back() {
    let limiter = RateLimiter::new(Quota::per_hour(1).burst(4)).clock(Clock::manual());
    let reserved = limiter.reserve_many(3).unwrap();
    let charge = reserved.wait().unwrap();
    limiter.refund(charge);
    assert_eq!(limiter.snapshot().available, 4);
    let mut local = limiter.local(4);
    local.try_acquire().unwrap();
    drop(local);
    assert_eq!(limiter.snapshot().available, 3);
}

#[test]
fn refund_of_a_charge_of_another_bucket_gives_nothing_back() {
    let clock = Clock::manual();
    let [one, other] = [(); 2].map(|()| LeakyBucket::new(Quota::per_hour(1), 0).clock(&clock));
    let charge = other.try_acquire().unwrap();
    one.try_acquire().unwrap();
    one.refund(charge);
    assert!(one.try_acquire().is_err());
}

/// Also where the keys have limiters of their own, because one waits; and where they have quotas of
/// their own.
#[test]
fn refund_of_a_charge_of_another_key_or_map_gives_nothing_back() {
    let quota = Quota::per_hour(1).burst(8);
    let clock = Clock::manual();
    let common = || Keyed::<u64, _>::new(RateLimiter::new(quota).clock(&clock));
    let maps = [common(), common().quotas(move |_| quota)];
    let stranger = common();
    for map in maps.map(Arc::new) {
        for dedicated in [false, true] {
            let (one, other) = (map.key(&1), map.key(&2));
            if dedicated {
                drop(one.reserve());
            }
            let before = one.snapshot().available;
            let taken = one.try_acquire_many(before).unwrap();
            let theirs = stranger.key(&1).try_acquire().unwrap();
            assert_eq!(one.decision(&theirs), one.peek_many(0));
            one.refund(theirs);
            for _ in 0..2 {
                let theirs = other.try_acquire().unwrap();
                assert_eq!(one.decision(&theirs), one.peek_many(0));
                one.refund(theirs);
            }
            let limiter = RateLimiter::new(quota).clock(&clock);
            one.refund(limiter.try_acquire().unwrap());
            assert_eq!(one.snapshot().available, 0);
            one.refund(taken);
            assert_eq!(one.snapshot().available, before);
        }
    }
}
