//! What is charged whatever is owed, and what a charge says.

use std::time::Duration;

use super::scene::{
    FIFTY, TEN, assert_available, assert_due, assert_limited, at, limiter, ms, spent,
};
use crate::support::Waiter;

#[test]
fn a_charge_is_made_whatever_is_owed() {
    let (clock, limiter) = spent(TEN);
    clock.advance(ms(30));
    let charge = limiter.charge(20);
    assert_eq!((charge.cost(), charge.at()), (20, clock.now()));
    assert_eq!(limiter.available(), 0);
    assert_limited(&limiter, 1, ms(2070));
}

#[test]
fn a_charge_delays_everybody_in_line() {
    let (clock, limiter) = spent(TEN);
    let mut first = Waiter::parked(limiter.acquire());
    let mut second = Waiter::parked(limiter.acquire());
    clock.advance(ms(50));
    limiter.charge(7);
    // The alarm of the first one still goes off, for nothing.
    assert_due(&clock, &mut first, ms(750));
    assert_due(&clock, &mut second, ms(100));
}

#[test]
fn a_charge_can_be_given_back_and_hurries_the_line() {
    let (clock, limiter) = spent(TEN);
    let mut waiter = Waiter::parked(limiter.acquire());
    let charge = limiter.charge(7);
    clock.advance(ms(150));
    assert!(waiter.is_pending());
    // The one that was spent has been paid off, and half of the first of seven.
    limiter.refund(charge);
    assert_eq!(at(&waiter.granted()), ms(150));
    assert_limited(&limiter, 1, ms(100));
}

#[test]
fn a_charge_of_an_idle_limiter_starts_now() {
    let (clock, limiter) = limiter(FIFTY);
    clock.advance(ms(12_345));
    limiter.charge(60);
    assert_limited(&limiter, 1, ms(110));
    assert_limited(&limiter, 50, ms(600));
}

#[test]
fn what_is_owed_saturates() {
    let years = Duration::from_secs(30 * 365 * 24 * 3600);
    let (clock, limiter) = limiter(FIFTY);
    for cost in [u64::MAX, u64::MAX, 1, u64::MAX / 3] {
        limiter.charge(cost);
        assert!(limiter.peek().retry_after > years);
        assert!(limiter.peek().reset_after > years);
    }
    assert_eq!(limiter.available(), 0);
    let mut waiter = Waiter::parked(limiter.acquire());
    clock.advance(Duration::from_secs(5 * 365 * 24 * 3600));
    assert!(waiter.is_pending());
}

#[test]
fn a_charge_beyond_all_bounds_can_be_given_back() {
    let (_clock, limiter) = limiter(FIFTY);
    let charge = limiter.charge(u64::MAX);
    limiter.refund(charge);
    assert_available(&limiter, 50);
    let charge = limiter.try_acquire_many(2).unwrap();
    limiter.settle(charge, u64::MAX);
    assert_eq!(limiter.available(), 0);
}

/// It took only what there was room for, and so it gives back no more than that.
#[test]
fn a_charge_that_saturated_does_not_give_back_what_others_were_charged() {
    let (_clock, limiter) = spent(TEN);
    let charge = limiter.charge(u64::MAX);
    limiter.refund(charge);
    // The burst was spent at this tick.
    assert_limited(&limiter, 1, ms(100));
}

#[test]
fn a_charge_says_how_the_limiter_stood_just_after() {
    let (clock, limiter) = limiter(FIFTY);
    limiter.try_acquire_many(10).unwrap();
    clock.advance(ms(5));
    let charge = limiter.try_acquire_many(30).unwrap();
    limiter.try_acquire().unwrap();
    clock.advance(ms(1000));
    let decision = limiter.decision(&charge);
    assert_eq!((decision.limit, decision.remaining), (50, 10));
    assert_eq!(decision.retry_after, Duration::ZERO);
    assert_eq!(decision.reset_after, ms(395));
    assert_eq!(decision.at, charge.at());
    assert_eq!(at(&charge), ms(5));
}

#[test]
fn the_charge_of_a_waiter_says_how_the_limiter_stood_at_its_turn() {
    let (clock, limiter) = spent(FIFTY);
    let mut waiter = Waiter::parked(limiter.acquire_many(20));
    let _next = Waiter::parked(limiter.acquire_many(30));
    clock.advance(ms(210));
    let decision = limiter.decision(&waiter.granted());
    assert_eq!((decision.limit, decision.remaining), (50, 0));
    assert_eq!(decision.reset_after, ms(500));
    assert_eq!(decision.at.as_nanos(), 200_000_000);
}

#[test]
fn a_charge_shows_what_it_cost() {
    let (_clock, limiter) = limiter(FIFTY);
    let text = format!("{:?}", limiter.try_acquire_many(7).unwrap());
    assert!(text.contains("cost: 7"), "{text}");
}
