//! A bounded line, costs beyond all bounds, and a random delay on top.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, ManualClock, Quota, RateLimiter};

use super::scene::{FIFTY, TEN, TICK, assert_due, assert_limited, line, ms};
use crate::support::{Waiter, kind};

fn bounded(quota: Quota, most: usize) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(quota).max_waiters(most).clock(&clock);
    limiter.try_acquire_many(quota.max_burst()).unwrap();
    (clock, limiter)
}

#[test]
fn one_more_is_refused_and_told_when_a_place_is_free() {
    let (clock, limiter) = bounded(FIFTY, 3);
    let mut waiters = line(&limiter, &[20, 1, 1]);
    clock.advance(ms(30));
    let error = Waiter::new(limiter.acquire()).output().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull);
    assert_eq!(error.retry_after(), Some(ms(170)));
    clock.advance(ms(170) - TICK);
    let error = Waiter::new(limiter.acquire()).output().unwrap_err();
    assert_eq!(error.retry_after(), Some(TICK));
    assert_due(&clock, &mut waiters[0], TICK);
    waiters.extend(line(&limiter, &[1]));
    assert_eq!(limiter.waiting(), 3);
    assert_eq!(
        Waiter::new(limiter.acquire()).refused(),
        ErrorKind::QueueFull
    );
}

#[test]
fn a_place_that_is_left_is_free_at_once() {
    let (_clock, limiter) = bounded(TEN, 2);
    for left in 0..2 {
        let mut waiters = line(&limiter, &[1, 1]);
        assert_eq!(
            Waiter::new(limiter.acquire()).refused(),
            ErrorKind::QueueFull
        );
        drop(waiters.remove(left));
        let _joins = Waiter::parked(limiter.acquire());
        assert_eq!(limiter.waiting(), 2);
    }
}

#[test]
fn a_line_of_nobody_admits_whoever_need_not_wait() {
    let (clock, limiter) = bounded(TEN, 0);
    let error = Waiter::new(limiter.acquire()).output().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull);
    assert_eq!(error.retry_after(), Some(ms(100)));
    assert_eq!(kind(limiter.reserve()), ErrorKind::QueueFull);
    // A try is refused by the rate, as it never waits.
    assert_limited(&limiter, 1, ms(100));
    clock.advance(ms(100));
    Waiter::new(limiter.acquire()).granted();
    assert_eq!(limiter.reserve_many(0).unwrap().delay(), Duration::ZERO);
}

/// Nobody is in line whose place could become free, so it is for the one that asked to come again.
#[test]
fn a_line_of_nobody_tells_when_what_was_asked_for_will_be_there() {
    let (clock, limiter) = bounded(FIFTY, 0);
    let error = Waiter::new(limiter.acquire_many(20)).output().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull);
    assert_eq!(error.retry_after(), Some(ms(200)));
    clock.advance(ms(200));
    Waiter::new(limiter.acquire_many(20)).granted();
}

#[test]
fn costs_beyond_all_bounds_are_refused_and_change_nothing() {
    for quota in [
        TEN,
        FIFTY,
        Quota::per_second(1_000_000_000),
        Quota::new(1, Duration::from_nanos(1 << 57)),
        Quota::new(1, Duration::from_nanos(1)).burst(1 << 57),
    ] {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota).clock(&clock);
        let before = limiter.peek();
        for cost in [quota.max_burst() + 1, u64::MAX - 1, u64::MAX] {
            let refused = kind(limiter.try_acquire_many(cost));
            assert_eq!(refused, ErrorKind::ExceedsCapacity, "{quota}");
            let refused = Waiter::new(limiter.acquire_many(cost)).refused();
            assert_eq!(refused, ErrorKind::ExceedsCapacity, "{quota}");
        }
        assert_eq!(limiter.peek(), before);
        let burst = quota.max_burst();
        limiter.try_acquire_many(burst).unwrap();
        let mut waiter = Waiter::parked(limiter.acquire_many(burst));
        let whole = limiter.peek().reset_after;
        assert_due(&clock, &mut waiter, whole);
    }
}

#[test]
fn a_random_delay_is_only_ever_added_and_within_its_bound() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(TEN)
        .jitter(ms(50))
        .max_waiters(1)
        .clock(&clock);
    limiter.try_acquire().unwrap();
    let refused = |limiter: &RateLimiter| {
        let error = limiter.try_acquire().unwrap_err();
        error.retry_after().unwrap()
    };
    let delays: Vec<_> = (0..200).map(|_| refused(&limiter)).collect();
    assert!(
        delays
            .iter()
            .all(|delay| (ms(100)..=ms(150)).contains(delay))
    );
    // Different each time, and from all of the range.
    let (low, high) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
    assert!(*low < ms(110) && *high > ms(140), "{low:?} to {high:?}");

    // Those in line are granted at their tick all the same, and observing tells it.
    assert_eq!(limiter.peek().retry_after, ms(100));
    let mut waiter = Waiter::parked(limiter.acquire());
    for _ in 0..100 {
        let error = Waiter::new(limiter.acquire()).output().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QueueFull);
        assert!((ms(100)..=ms(150)).contains(&error.retry_after().unwrap()));
    }
    assert_due(&clock, &mut waiter, ms(100));
}

#[test]
fn a_random_delay_without_end_does_not_overflow() {
    let limiter = RateLimiter::new(TEN)
        .jitter(Duration::MAX)
        .clock(Clock::manual());
    limiter.try_acquire().unwrap();
    for _ in 0..100 {
        let error = limiter.try_acquire().unwrap_err();
        assert!(error.retry_after().unwrap() >= ms(100));
    }
}
