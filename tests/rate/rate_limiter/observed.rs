//! What can be seen of a limiter.

use std::time::Duration;

use super::scene::{FIFTY, TEN, TICK, limiter, ms, spent};
use crate::support::Waiter;

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
    assert_eq!((snapshot.limit, snapshot.in_use), (50, 50));
    assert_eq!(snapshot.oldest_wait, None);

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
fn the_oldest_wait_of_one_that_was_leaked_is_known() {
    let (clock, limiter) = spent(TEN);
    clock.advance(ms(10));
    std::mem::forget(limiter.reserve().unwrap());
    clock.advance(ms(40));
    assert_eq!(limiter.snapshot().oldest_wait, Some(ms(40)));
}
