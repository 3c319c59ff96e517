//! Waiting: out of the hand, by a chunk, or in line; and never past those who were there before.

use std::mem::forget;

use tollgate::ErrorKind;

use super::chunks::{limiter, ms};
use crate::support::{Waiter, kind};

#[test]
fn a_wait_is_over_at_once_with_some_in_hand_or_a_chunk_to_be_had() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(32);
    for left in (0..32).rev() {
        Waiter::new(local.acquire()).granted();
        assert_eq!((local.buffered(), limiter.available()), (left, 18));
    }
    local.acquire().wait().unwrap();
    assert_eq!((local.buffered(), limiter.available()), (17, 0));
}

#[test]
fn a_future_that_is_not_polled_takes_nothing() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(32);
    drop(local.acquire_many(10));
    assert_eq!((local.buffered(), limiter.available()), (0, 50));
    local.try_acquire().unwrap();
    drop(local.acquire_many(10));
    assert_eq!((local.buffered(), limiter.available()), (31, 18));
}

#[test]
fn in_line_it_asks_for_its_own_cost_and_no_more() {
    let (clock, limiter) = limiter(50);
    limiter.try_acquire_many(50).unwrap();
    let mut local = limiter.local(32);
    let mut waiter = Waiter::parked(local.acquire());
    let mut next = Waiter::parked(limiter.acquire());
    clock.advance(ms(10));
    assert_eq!((waiter.wakes(), next.wakes()), (1, 0));
    waiter.granted();
    clock.advance(ms(10));
    assert_eq!(next.wakes(), 1);
    next.granted();
    drop(waiter);
    assert_eq!((local.buffered(), limiter.available()), (0, 0));
}

#[test]
fn in_line_it_asks_for_what_is_missing_in_hand() {
    let (clock, limiter) = limiter(50);
    let mut local = limiter.local(8);
    local.try_acquire().unwrap();
    limiter.try_acquire_many(42).unwrap();
    let mut waiter = Waiter::parked(local.acquire_many(10));
    clock.advance(ms(30));
    waiter.granted();
    drop(waiter);
    assert_eq!((local.buffered(), limiter.available()), (0, 0));
}

#[test]
fn a_wait_that_is_dropped_leaves_the_line_and_what_is_in_hand() {
    let (clock, limiter) = limiter(50);
    let mut local = limiter.local(8);
    local.try_acquire().unwrap();
    limiter.try_acquire_many(42).unwrap();
    let waiter = Waiter::parked(local.acquire_many(10));
    assert_eq!(limiter.waiting(), 1);
    drop(waiter);
    assert_eq!((limiter.waiting(), local.buffered()), (0, 7));
    // The same if it has been granted and not noticed: that is given back.
    let waiter = Waiter::parked(local.acquire_many(10));
    clock.advance(ms(30));
    assert_eq!(waiter.wakes(), 1);
    drop(waiter);
    assert_eq!((local.buffered(), limiter.available()), (7, 3));
}

#[test]
fn a_wait_that_is_leaked_leaves_what_is_in_hand() {
    let (clock, limiter) = limiter(50);
    let mut local = limiter.local(8);
    local.try_acquire().unwrap();
    limiter.try_acquire_many(42).unwrap();
    forget(Waiter::parked(local.acquire_many(10)).into_future());
    clock.advance(ms(30));
    assert_eq!((local.buffered(), limiter.available()), (7, 0));
}

/// There is enough for the head in three ticks, and for a small one now.
#[test]
fn nothing_is_taken_past_those_who_wait() {
    let (clock, limiter) = limiter(50);
    limiter.try_acquire_many(20).unwrap();
    let mut waiter = Waiter::parked(limiter.acquire_many(33));
    let mut local = limiter.local(8);
    let refused = local.try_acquire().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::RateLimited);
    assert_eq!(refused.retry_after(), Some(ms(40)));
    let mut behind = Waiter::parked(local.acquire());
    clock.advance(ms(30));
    waiter.granted();
    assert!(behind.is_pending());
    clock.advance(ms(10));
    behind.granted();
    drop(behind);
    assert_eq!(local.buffered(), 0);
}

#[test]
fn what_is_in_hand_goes_while_others_wait() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(8);
    local.try_acquire().unwrap();
    let _waiter = Waiter::parked(limiter.acquire_many(50));
    for _ in 0..7 {
        Waiter::new(local.acquire()).granted();
    }
    assert_eq!(kind(local.try_acquire()), ErrorKind::RateLimited);
    assert!(Waiter::new(local.acquire()).is_pending());
}

#[test]
fn of_a_closed_limiter_only_what_is_in_hand_is_left() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(8);
    local.try_acquire_many(6).unwrap();
    limiter.close();
    assert_eq!(kind(local.try_acquire_many(3)), ErrorKind::Closed);
    local.try_acquire().unwrap();
    Waiter::new(local.acquire()).granted();
    assert_eq!(kind(local.try_acquire()), ErrorKind::Closed);
    assert_eq!(Waiter::new(local.acquire()).refused(), ErrorKind::Closed);
    assert_eq!(
        Waiter::new(local.acquire_many(0)).refused(),
        ErrorKind::Closed
    );
}

#[test]
fn closing_ends_a_wait() {
    let (_clock, limiter) = limiter(50);
    limiter.try_acquire_many(50).unwrap();
    let mut local = limiter.local(8);
    let mut waiter = Waiter::parked(local.acquire());
    limiter.close();
    assert_eq!(waiter.wakes(), 1);
    assert_eq!(waiter.refused(), ErrorKind::Closed);
}

#[test]
fn closing_ends_a_wait_for_the_rest_and_leaves_what_is_in_hand() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(8);
    local.try_acquire().unwrap();
    limiter.try_acquire_many(42).unwrap();
    let mut waiter = Waiter::parked(local.acquire_many(10));
    limiter.close();
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    drop(waiter);
    local.try_acquire_many(7).unwrap();
    assert_eq!(kind(local.try_acquire()), ErrorKind::Closed);
}

#[test]
fn more_than_the_burst_is_refused_at_once_whatever_is_in_hand() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(32);
    local.try_acquire().unwrap();
    let mut waiter = Waiter::new(local.acquire_many(51));
    assert_eq!(waiter.refused(), ErrorKind::ExceedsCapacity);
    drop(waiter);
    assert_eq!((local.buffered(), limiter.available()), (31, 18));
}

#[test]
fn a_timeout_that_will_not_fit_is_refused_at_once() {
    let (clock, limiter) = limiter(50);
    limiter.try_acquire_many(50).unwrap();
    let mut local = limiter.local(32);
    let mut waiter = Waiter::new(local.acquire_many(3).timeout(ms(29)));
    let error = waiter.output().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(error.retry_after(), Some(ms(30)));
    drop(waiter);
    let mut waiter = Waiter::parked(local.acquire_many(3).timeout(ms(30)));
    clock.advance(ms(30));
    waiter.granted();
}

#[cfg(feature = "tokio")]
#[test]
fn a_token_ends_a_wait_and_what_is_in_hand_stays() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(8);
    local.try_acquire().unwrap();
    limiter.try_acquire_many(42).unwrap();
    let token = tokio_util::sync::CancellationToken::new();
    let mut waiter = Waiter::parked(local.acquire_many(10).cancel_on(&token));
    token.cancel();
    assert_eq!(waiter.refused(), ErrorKind::Cancelled);
    drop(waiter);
    assert_eq!((local.buffered(), limiter.waiting()), (7, 0));
}
