//! Calls that ask for more than the burst, where they may: alone, when nothing is owed, and into
//! debt.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, ManualClock, Oversize, Quota, RateLimiter};

use super::scene::{FIFTY, TICK, assert_due, assert_limited, at, line, ms};
use crate::support::{Waiter, kind};

fn lenient(taken: u64) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(FIFTY)
        .oversize(Oversize::Overdraft)
        .clock(&clock);
    limiter.try_acquire_many(taken).unwrap();
    (clock, limiter)
}

#[test]
fn one_is_admitted_when_the_whole_burst_is_there() {
    let (clock, limiter) = lenient(0);
    let charge = limiter.try_acquire_many(200).unwrap();
    assert_eq!((charge.cost(), limiter.available()), (200, 0));
    assert_eq!(limiter.decision(&charge).reset_after, ms(2000));
    // What is beyond the burst is paid off first.
    assert_limited(&limiter, 1, ms(1510));
    clock.advance(ms(1510) - TICK);
    assert_limited(&limiter, 1, TICK);
    clock.advance(TICK);
    limiter.try_acquire().unwrap();
}

#[test]
fn one_is_refused_while_anything_is_owed() {
    let (clock, limiter) = lenient(1);
    assert_limited(&limiter, 51, ms(10));
    assert_limited(&limiter, 1000, ms(10));
    clock.advance(ms(10) - TICK);
    assert_limited(&limiter, 51, TICK);
    clock.advance(TICK);
    limiter.try_acquire_many(51).unwrap();
}

#[test]
fn one_that_waits_goes_when_nothing_is_owed_and_those_behind_it_after_its_debt() {
    let (clock, limiter) = lenient(30);
    let mut waiters = line(&limiter, &[100, 1, 50, 80, 1]);
    assert_limited(&limiter, 1, ms(300 + 1000 + 10 + 500 + 800 + 10 + 10 - 500));
    assert_due(&clock, &mut waiters[0], ms(300));
    assert_due(&clock, &mut waiters[1], ms(1000 + 10 - 500));
    assert_due(&clock, &mut waiters[2], ms(500));
    // Nothing is owed when the last of the fifty has been paid off.
    assert_due(&clock, &mut waiters[3], ms(500));
    assert_due(&clock, &mut waiters[4], ms(800 + 10 - 500));
}

#[test]
fn one_that_waits_is_not_passed_by_small_ones() {
    let (clock, limiter) = lenient(30);
    let mut large = Waiter::parked(limiter.acquire_many(100));
    let mut small = Waiter::parked(limiter.acquire());
    assert_eq!(limiter.available(), 20);
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
    clock.advance(ms(300) - TICK);
    assert!(small.is_pending());
    assert_due(&clock, &mut large, TICK);
}

#[test]
fn one_that_leaves_lets_those_behind_it_go() {
    let (clock, limiter) = lenient(30);
    let large = Waiter::parked(limiter.acquire_many(100));
    let mut small = Waiter::parked(limiter.acquire_many(20));
    clock.advance(ms(1));
    drop(large);
    assert_eq!(at(&small.granted()), ms(1));
}

#[test]
fn one_behind_others_waits_for_all_of_them_to_be_paid_off() {
    let (clock, limiter) = lenient(50);
    let mut small = Waiter::parked(limiter.acquire_many(5));
    let mut large = Waiter::parked(limiter.acquire_many(51));
    assert_due(&clock, &mut small, ms(50));
    assert_due(&clock, &mut large, ms(500));
}

#[test]
fn the_rate_holds_over_time() {
    let (clock, limiter) = lenient(0);
    Waiter::new(limiter.acquire_many(500)).granted();
    let mut waiters = line(&limiter, &[500; 10]);
    clock.advance(Duration::from_secs(50));
    let ticks: Vec<_> = waiters.iter_mut().map(|one| at(&one.granted())).collect();
    let expected: Vec<_> = (1..=10).map(|n| Duration::from_secs(5 * n)).collect();
    assert_eq!(ticks, expected);
}

#[test]
fn one_beyond_all_bounds_is_admitted_and_can_be_given_back() {
    let (clock, limiter) = lenient(0);
    clock.advance(ms(1));
    let charge = limiter.try_acquire_many(u64::MAX).unwrap();
    // As much as there is room for.
    assert!(charge.cost() > 100_000_000_000 && charge.cost() < u64::MAX);
    let never = Duration::from_secs(20 * 365 * 24 * 3600);
    assert!(limiter.peek().retry_after > never);
    let mut waiter = Waiter::parked(limiter.acquire_many(u64::MAX));
    let mut next = Waiter::parked(limiter.acquire());
    clock.advance(Duration::from_secs(3600));
    assert!(waiter.is_pending() && next.is_pending());
    limiter.refund(charge);
    let charge = waiter.granted();
    assert_eq!(charge.at(), clock.now());
    assert!(next.is_pending());
    limiter.refund(charge);
    next.granted();
    assert_limited(&limiter, 50, ms(10));
}

/// What fits depends on the tick alone, when nothing is owed.
#[test]
fn one_beyond_all_bounds_that_waits_costs_what_fitted_when_its_turn_came() {
    let (clock, limiter) = lenient(50);
    let other = RateLimiter::new(FIFTY)
        .oversize(Oversize::Overdraft)
        .clock(&clock);
    let mut waiter = Waiter::parked(limiter.acquire_many(u64::MAX));
    let charge = assert_due(&clock, &mut waiter, ms(500));
    let fits = other.try_acquire_many(u64::MAX).unwrap();
    assert_eq!((charge.at(), charge.cost()), (fits.at(), fits.cost()));
    // There is no room for another, and to settle for one less makes room for one.
    assert_eq!(limiter.charge(1).cost(), 0);
    let cost = charge.cost();
    limiter.settle(charge, cost - 1);
    assert_eq!(limiter.charge(2).cost(), 1);
}

#[test]
fn a_smaller_burst_refuses_nobody_in_line() {
    let (clock, limiter) = lenient(50);
    let mut waiters = line(&limiter, &[40, 1]);
    limiter.set_quota(Quota::per_second(100).burst(10));
    assert_due(&clock, &mut waiters[0], ms(100));
    assert_due(&clock, &mut waiters[1], ms(310));
}

#[test]
fn nobody_is_told_that_it_can_never_be() {
    let (_clock, limiter) = lenient(10);
    assert_eq!(limiter.peek_many(1000).retry_after, ms(100));
}
