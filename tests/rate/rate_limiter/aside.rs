//! Futures that nobody polls: not yet, not any more, never again.

use tollgate::ErrorKind;

use super::scene::{TEN, TICK, assert_due, assert_limited, at, limiter, ms, spent};
use crate::support::{Waiter, kind};

#[test]
fn a_future_that_was_never_polled_is_not_in_line() {
    let (clock, limiter) = spent(TEN);
    let mut unpolled = Waiter::new(limiter.acquire());
    let mut polled = Waiter::parked(limiter.acquire());
    assert_eq!(limiter.waiting(), 1);
    assert_due(&clock, &mut polled, ms(100));
    // It joins when it is polled, behind everybody else.
    assert!(unpolled.is_pending());
    assert_due(&clock, &mut unpolled, ms(100));
}

#[test]
fn a_future_that_was_never_polled_is_charged_nothing() {
    let (clock, limiter) = limiter(TEN);
    let mut unpolled = Waiter::new(limiter.acquire());
    clock.advance(ms(1));
    limiter.try_acquire().unwrap();
    assert!(unpolled.is_pending());
    drop(unpolled);
    assert_limited(&limiter, 1, ms(100));
}

#[test]
fn a_waiter_that_was_put_aside_keeps_its_place_and_its_charge() {
    let (clock, limiter) = spent(TEN);
    let mut aside = Waiter::parked(limiter.acquire());
    let mut next = Waiter::parked(limiter.acquire());
    assert_due(&clock, &mut next, ms(200));
    clock.advance(ms(10_000));
    // It was charged when it was due, not when somebody looked.
    assert_eq!((aside.wakes(), at(&aside.granted())), (1, ms(100)));
}

#[test]
fn a_line_of_which_nobody_is_polled_moves_all_the_same() {
    let (clock, limiter) = spent(TEN);
    let mut aside: Vec<_> = (0..50).map(|_| Waiter::parked(limiter.acquire())).collect();
    let mut last = Waiter::parked(limiter.acquire());
    assert_due(&clock, &mut last, ms(5100));
    let ticks: Vec<_> = aside
        .iter_mut()
        .map(|waiter| at(&waiter.granted()))
        .collect();
    let expected: Vec<_> = (1..=50).map(|n| ms(100 * n)).collect();
    assert_eq!(ticks, expected);
}

#[test]
fn a_waiter_that_was_leaked_delays_nobody_but_by_what_it_asked_for() {
    let (clock, limiter) = spent(TEN);
    std::mem::forget(Waiter::parked(limiter.acquire()).into_future());
    let mut next = Waiter::parked(limiter.acquire());
    assert_due(&clock, &mut next, ms(200));
    clock.advance(ms(100));
    // Its charge has been paid off as any other.
    limiter.try_acquire().unwrap();
    assert_eq!(limiter.waiting(), 0);
}

#[test]
fn a_waiter_that_was_granted_and_then_leaked_delays_nobody() {
    let (clock, limiter) = spent(TEN);
    let granted = Waiter::parked(limiter.acquire());
    let mut next = Waiter::parked(limiter.acquire());
    clock.advance(ms(100));
    assert_eq!(granted.wakes(), 1);
    std::mem::forget(granted.into_future());
    assert_due(&clock, &mut next, ms(100));
}

#[test]
fn a_leaked_waiter_of_a_closed_limiter_does_no_harm() {
    let (_clock, limiter) = spent(TEN);
    std::mem::forget(Waiter::parked(limiter.acquire()).into_future());
    limiter.close();
    assert_eq!(limiter.waiting(), 0);
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
}

#[test]
fn a_future_outlives_its_limiter_and_is_still_granted() {
    let (clock, limiter) = spent(TEN);
    let shared = std::sync::Arc::new(limiter);
    let mut waiter = Waiter::parked(std::sync::Arc::clone(&shared).acquire_owned());
    let reservation = shared.reserve().unwrap();
    drop(shared);
    assert_due(&clock, &mut waiter, ms(100));
    let mut reserved = Waiter::new(reservation);
    clock.advance(ms(100) - TICK);
    assert!(reserved.is_pending());
    clock.advance(TICK);
    assert_eq!(at(&reserved.granted()), ms(200));
}
