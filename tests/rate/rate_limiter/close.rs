//! A closed limiter admits nobody, and keeps nobody waiting.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, RateLimiter};

use super::scene::{FIFTY, TEN, TICK, at, limiter, line, ms, spent};
use crate::support::{Waiter, kind};

#[test]
fn everybody_in_line_is_refused_at_once() {
    let (_clock, limiter) = spent(FIFTY);
    let mut waiters = line(&limiter, &[1, 50, 3]);
    waiters.extend(line(&limiter, &[2; 100]));
    limiter.close();
    assert_eq!(limiter.waiting(), 0);
    for waiter in &mut waiters {
        assert_eq!(waiter.wakes(), 1);
        assert_eq!(waiter.refused(), ErrorKind::Closed);
    }
}

#[test]
fn every_newcomer_is_refused() {
    let (clock, limiter) = limiter(FIFTY);
    assert!(!limiter.is_closed());
    let mut unpolled = Waiter::new(limiter.acquire());
    limiter.close();
    assert!(limiter.is_closed());
    for _ in 0..2 {
        assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
        assert_eq!(kind(limiter.try_acquire_many(0)), ErrorKind::Closed);
        assert_eq!(kind(limiter.reserve()), ErrorKind::Closed);
        for cost in [0, 1, 50] {
            let refused = Waiter::new(limiter.acquire_many(cost)).refused();
            assert_eq!(refused, ErrorKind::Closed);
            assert_eq!(limiter.peek_many(cost).retry_after, Duration::MAX);
        }
        clock.advance(Duration::from_secs(1));
        limiter.close();
    }
    assert_eq!(unpolled.refused(), ErrorKind::Closed);
    assert!(format!("{limiter:?}").contains("closed: true"));
}

#[test]
fn whoever_was_granted_before_keeps_its_charge() {
    let (clock, limiter) = spent(TEN);
    let mut granted = Waiter::parked(limiter.acquire());
    let mut late = Waiter::parked(limiter.acquire());
    clock.advance(ms(200) - TICK);
    limiter.close();
    assert_eq!((granted.wakes(), late.wakes()), (1, 1));
    assert_eq!(at(&granted.granted()), ms(100));
    assert_eq!(late.refused(), ErrorKind::Closed);
}

#[test]
fn one_that_was_granted_before_and_leaves_lets_nobody_in() {
    let (clock, limiter) = spent(TEN);
    let granted = Waiter::parked(limiter.acquire());
    let mut waiting = Waiter::parked(limiter.acquire());
    clock.advance(ms(100));
    limiter.close();
    drop(granted);
    assert_eq!(waiting.refused(), ErrorKind::Closed);
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
}

#[test]
fn the_alarm_of_a_closed_limiter_does_nothing() {
    let (clock, limiter) = spent(TEN);
    let mut waiter = Waiter::parked(limiter.acquire());
    limiter.close();
    clock.advance(ms(500));
    assert_eq!((waiter.wakes(), waiter.refused()), (1, ErrorKind::Closed));
}

#[test]
fn a_closed_limiter_can_still_be_changed_and_observed() {
    let (clock, limiter) = spent(TEN);
    limiter.close();
    limiter.set_quota(FIFTY);
    limiter.charge(3);
    clock.advance(ms(10));
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.available, snapshot.waiting), (0, 0));
    assert_eq!(limiter.quota(), FIFTY);
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
}

#[test]
fn of_several_reasons_the_first_is_told() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(TEN).max_waiters(1).clock(&clock);
    limiter.try_acquire().unwrap();
    let _head = Waiter::parked(limiter.acquire());
    // Too large, and there is no place: it would not help to wait for one.
    let refused = Waiter::new(limiter.acquire_many(2)).refused();
    assert_eq!(refused, ErrorKind::ExceedsCapacity);
    assert_eq!(
        kind(limiter.try_acquire_many(2)),
        ErrorKind::ExceedsCapacity
    );
    assert_eq!(
        Waiter::new(limiter.acquire()).refused(),
        ErrorKind::QueueFull
    );
    limiter.close();
    for cost in [1, 2] {
        let refused = Waiter::new(limiter.acquire_many(cost)).refused();
        assert_eq!(refused, ErrorKind::Closed);
        assert_eq!(kind(limiter.try_acquire_many(cost)), ErrorKind::Closed);
    }
}
