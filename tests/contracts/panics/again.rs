//! Futures that are polled once more after they were ready.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, Quota, RateLimiter, Semaphore};

use super::{polled_again, row};
use crate::support::{Waiter, assert_at_rest};

#[test]
fn a_future_that_is_polled_again_after_it_was_let_in() {
    let semaphore = Arc::new(Semaphore::new(1));
    let second = std::time::Duration::from_secs(1);
    polled_again(semaphore.acquire());
    polled_again(semaphore.acquire_many(0));
    polled_again(Arc::clone(&semaphore).acquire_owned());
    polled_again(semaphore.acquire().timeout(second));
    polled_again(semaphore.wait_idle().timeout(second));
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_future_that_is_polled_again_after_it_was_refused() {
    let semaphore = Arc::new(Semaphore::new(1).max_waiters(1));
    polled_again(semaphore.acquire_many(2));
    let held = semaphore.try_acquire().unwrap();
    polled_again(semaphore.acquire().timeout(std::time::Duration::ZERO));
    let mut line = Waiter::parked(semaphore.acquire());
    polled_again(semaphore.acquire());
    semaphore.close();
    polled_again(Arc::clone(&semaphore).acquire_owned());
    assert!(line.output().is_err());
    row("polled again after it was ready", || line.poll().is_ready());
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_future_that_is_polled_again_after_it_was_served_from_the_line() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire());
    drop(held);
    drop(waiter.granted());
    row("polled again after it was ready", || {
        waiter.poll().is_ready()
    });
    drop(waiter);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_future_of_a_rate_limiter_that_is_polled_again() {
    let clock = Clock::manual();
    let limiter = Arc::new(
        RateLimiter::new(Quota::per_second(10))
            .max_waiters(1)
            .clock(&clock),
    );
    polled_again(limiter.acquire_many(2));
    polled_again(limiter.acquire());
    polled_again(limiter.acquire_many(0));
    clock.advance(Duration::from_millis(100));
    polled_again(limiter.reserve().unwrap());
    let mut waiter = Waiter::parked(Arc::clone(&limiter).acquire_owned());
    polled_again(limiter.acquire());
    clock.advance(Duration::from_millis(100));
    waiter.granted();
    row("polled again after it was ready", || {
        waiter.poll().is_ready()
    });
    drop(waiter);
    let mut reserved = Waiter::parked(limiter.reserve().unwrap());
    limiter.close();
    assert!(reserved.output().is_err());
    row("polled again after it was ready", || {
        reserved.poll().is_ready()
    });
    polled_again(limiter.acquire());
}

#[test]
fn a_future_of_a_local_limiter_that_is_polled_again() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(10).burst(2)).clock(&clock);
    let mut local = limiter.local(2);
    polled_again(local.acquire());
    polled_again(local.acquire());
    polled_again(local.acquire_many(0));
    polled_again(local.acquire_many(3));
    let mut waiter = Waiter::parked(local.acquire());
    clock.advance(Duration::from_millis(100));
    waiter.granted();
    row("polled again after it was ready", || {
        waiter.poll().is_ready()
    });
    drop(waiter);
    limiter.close();
    polled_again(local.acquire());
    assert_eq!((local.buffered(), limiter.waiting()), (0, 0));
}
