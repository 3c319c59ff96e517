//! What can be seen of a limiter, and what is counted.

use std::time::Duration;

use tollgate::{Clock, ManualClock, RateLimiter};

use super::scene::{FIFTY, TEN, TICK, limiter, line, ms, spent};
use crate::support::Waiter;

fn counted() -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(TEN)
        .max_waiters(3)
        .statistics()
        .clock(&clock);
    (clock, limiter)
}

fn calls(limiter: &RateLimiter) -> [u64; 3] {
    let calls = limiter.snapshot().calls.expect("they are counted");
    [calls.admitted, calls.denied, calls.cancelled]
}

#[test]
fn peeking_charges_nothing_and_says_how_it_stands() {
    let (clock, limiter) = limiter(FIFTY);
    for _ in 0..100 {
        let decision = limiter.peek_many(50);
        assert_eq!((decision.limit, decision.remaining), (50, 50));
        assert_eq!(decision.retry_after, Duration::ZERO);
        assert_eq!(decision.reset_after, Duration::ZERO);
    }
    limiter.try_acquire_many(50).unwrap();
    clock.advance(ms(19));
    let decision = limiter.peek_many(3);
    assert_eq!((decision.limit, decision.remaining), (50, 1));
    assert_eq!(decision.retry_after, ms(11));
    assert_eq!(decision.reset_after, ms(481));
    assert_eq!(decision.at, clock.now());
}

#[test]
fn a_snapshot_shows_the_line() {
    let (clock, limiter) = spent(FIFTY);
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.available, snapshot.waiting), (0, 0));
    assert_eq!((snapshot.oldest_wait, snapshot.calls), (None, None));

    let mut first = Waiter::parked(limiter.acquire_many(40));
    clock.advance(ms(150));
    let second = Waiter::parked(limiter.acquire_many(20));
    let third = limiter.reserve().unwrap();
    clock.advance(ms(250) - TICK);
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.available, snapshot.waiting), (39, 3));
    assert_eq!(snapshot.oldest_wait, Some(ms(400) - TICK));
    // Which nobody gets who comes now.
    let decision = limiter.peek();
    assert_eq!((limiter.available(), decision.remaining), (39, 0));
    assert!(!decision.retry_after.is_zero());

    clock.advance(TICK);
    first.granted();
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.available, snapshot.waiting), (0, 2));
    assert_eq!(snapshot.oldest_wait, Some(ms(250)));
    drop(second);
    // The last one was granted when that one left, 250 ms after it came: one is to be had in 10 ms.
    clock.advance(ms(10));
    assert_eq!(limiter.snapshot().waiting, 0);
    assert_eq!(limiter.snapshot().oldest_wait, None);
    drop(third);
}

#[test]
fn the_oldest_wait_of_one_that_was_confirmed_is_known() {
    let (clock, limiter) = spent(TEN);
    clock.advance(ms(10));
    limiter.reserve().unwrap().confirm().unwrap();
    clock.advance(ms(40));
    assert_eq!(limiter.snapshot().oldest_wait, Some(ms(40)));
}

#[test]
fn nothing_is_counted_unless_it_was_asked_for() {
    let (_clock, limiter) = spent(TEN);
    assert!(limiter.try_acquire().is_err());
    assert_eq!(limiter.snapshot().calls, None);
}

#[test]
fn each_call_is_counted_once_for_what_came_of_it() {
    let (clock, limiter) = counted();
    assert_eq!(calls(&limiter), [0, 0, 0]);
    limiter.try_acquire().unwrap();
    assert_eq!(calls(&limiter), [1, 0, 0]);
    limiter.try_acquire().unwrap_err();
    limiter.try_acquire_many(2).unwrap_err();
    assert_eq!(calls(&limiter), [1, 2, 0]);

    let mut waiters = line(&limiter, &[1; 3]);
    assert_eq!(calls(&limiter), [1, 2, 0]);
    // The line is full.
    limiter.acquire().wait().unwrap_err();
    limiter.reserve().unwrap_err();
    assert_eq!(calls(&limiter), [1, 4, 0]);
    drop(waiters.pop());
    assert_eq!(calls(&limiter), [1, 4, 1]);
    clock.advance(ms(100));
    assert_eq!(calls(&limiter), [2, 4, 1]);
    // To collect is not another call, and to leave with a charge is not to give up waiting.
    waiters[0].granted();
    clock.advance(ms(100));
    drop(waiters);
    assert_eq!(calls(&limiter), [3, 4, 1]);
}

#[test]
fn calls_that_need_not_wait_are_counted_too() {
    let (clock, limiter) = counted();
    Waiter::new(limiter.acquire()).granted();
    clock.advance(ms(100));
    limiter.reserve().unwrap().confirm().unwrap();
    limiter.try_acquire_many(0).unwrap();
    Waiter::new(limiter.acquire_many(0)).granted();
    assert_eq!(calls(&limiter), [4, 0, 0]);
    drop(Waiter::new(limiter.acquire()));
    limiter.peek();
    limiter.available();
    limiter.snapshot();
    assert_eq!(calls(&limiter), [4, 0, 0]);
}

#[test]
fn a_closed_limiter_counts_newcomers_as_denied() {
    let (_clock, limiter) = counted();
    limiter.try_acquire().unwrap();
    let mut waiter = Waiter::parked(limiter.acquire());
    limiter.close();
    waiter.output().unwrap_err();
    limiter.try_acquire().unwrap_err();
    Waiter::new(limiter.acquire()).output().unwrap_err();
    assert_eq!(calls(&limiter), [1, 2, 0]);
}
