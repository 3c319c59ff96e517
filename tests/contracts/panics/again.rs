//! Futures that are polled once more after they were ready, each in its own way. After it was let in at
//! once, in its turn or was closed, this is `a_wait_that_is_polled_again_panics_and_takes_nothing` in
//! `conformance/wakers.rs`, for every throttle.

use std::time::Duration;

use tollgate::{Clock, Gate, Keyed, Quota, RateLimiter, Semaphore};

use super::{polled_again, row};
use crate::support::{Waiter, assert_at_rest};

const AGAIN: &str = "polled again after it was ready";

#[test]
fn a_future_of_a_semaphore_that_is_polled_again() {
    let semaphore = Semaphore::new(1).max_waiters(0);
    let second = Duration::from_secs(1);
    polled_again(semaphore.acquire_many(0));
    polled_again(semaphore.acquire_many(2));
    polled_again(semaphore.acquire().timeout(second));
    polled_again(semaphore.wait_idle().timeout(second));
    let held = semaphore.try_acquire().unwrap();
    polled_again(semaphore.acquire());
    polled_again(semaphore.acquire().timeout(Duration::ZERO));
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_future_of_a_limiter_a_key_or_a_gate_that_is_polled_again() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(10))
        .max_waiters(1)
        .clock(&clock);
    polled_again(limiter.acquire_many(2));
    polled_again(limiter.acquire());
    polled_again(limiter.acquire_many(0));
    clock.advance(Duration::from_millis(100));
    polled_again(limiter.reserve().unwrap());
    let mut reserved = Waiter::parked(limiter.reserve().unwrap());
    polled_again(limiter.acquire());
    limiter.close();
    assert!(reserved.output().is_err());
    row(AGAIN, || reserved.poll().is_ready());
    polled_again(
        Keyed::<u8, _>::rate_limiters(Quota::per_second(1))
            .key(&1)
            .acquire(),
    );
    polled_again(Gate::new().acquire());
}
