//! The default clock: the system clock, unless a test enables tokio's clock with the feature
//! `test-util`.

use std::time::Duration;

use tokio::time::Instant;
use tollgate::{Clock, LeakyBucket, Quota, RateLimiter};

use crate::support::paused_runtime;
use crate::{SECOND, acquire_times, assert_apart, ends, millis};

const FAST: Quota = Quota::per_second(1000);

const DAY: Duration = Duration::from_secs(86_400);

/// Runs in paused time, and returns how much of it has passed. Real time does not stop for it.
fn paused(run: impl Future<Output = ()> + Send + 'static) -> Duration {
    ends(|| {
        paused_runtime().block_on(async {
            let begun = Instant::now();
            run.await;
            begun.elapsed()
        })
    })
}

async fn acquire_twice(bucket: LeakyBucket) {
    bucket.acquire().await.unwrap();
    bucket.acquire().await.unwrap();
}

#[cfg(not(feature = "test-util"))]
#[test]
fn first_used_outside_of_a_runtime_it_is_that_of_the_machine() {
    let limiter = RateLimiter::new(FAST);
    let before = Clock::system().now();
    let at = limiter.try_acquire().unwrap().at();
    assert!(before <= at && at <= Clock::system().now());
    let passed = paused(async move {
        assert_apart(acquire_times(&limiter, 3).await, millis(1));
    });
    assert_eq!(passed, Duration::ZERO);
}

#[test]
fn one_that_was_chosen_stays() {
    let passed = paused(async {
        let limiter = RateLimiter::new(FAST).clock(Clock::system());
        assert_apart(acquire_times(&limiter, 3).await, millis(1));
        acquire_twice(LeakyBucket::new(FAST, 10).clock(Clock::system())).await;
    });
    assert_eq!(passed, Duration::ZERO);
    paused(async {
        let manual = Clock::manual();
        let limiter = RateLimiter::new(FAST).clock(&manual);
        assert_eq!(limiter.try_acquire().unwrap().at(), manual.now());
        tokio::time::advance(SECOND).await;
        assert!(limiter.try_acquire().is_err());
    });
}

#[cfg(feature = "tokio")]
#[test]
fn the_time_of_tokio_that_was_chosen_stays() {
    let daily = || RateLimiter::new(Quota::per_day(1)).clock(Clock::tokio());
    let used_outside = daily();
    used_outside.try_acquire().unwrap();
    for limiter in [daily(), used_outside] {
        let passed = paused(async move { drop(acquire_times(&limiter, 3).await) });
        assert_eq!(passed, 2 * DAY);
    }
}

/// The first test to touch a static may have no runtime.
#[cfg(feature = "test-util")]
#[test]
fn with_test_util_what_is_first_used_outside_of_runtimes_follows_the_time_of_each() {
    static SHARED: RateLimiter = RateLimiter::new(Quota::per_day(1));
    assert!(SHARED.try_acquire().is_ok());
    assert!(SHARED.try_acquire().is_err());
    let passed = paused(async { drop(acquire_times(&SHARED, 3).await) });
    assert_eq!(passed, 2 * DAY);
}

#[cfg(feature = "test-util")]
#[test]
fn with_test_util_what_is_first_used_in_a_runtime_follows_its_time() {
    static SHARED: RateLimiter = RateLimiter::new(Quota::per_day(1));
    let passed = paused(async {
        acquire_times(&SHARED, 3).await;
        acquire_twice(LeakyBucket::new(Quota::per_day(1), 10)).await;
    });
    assert_eq!(passed, 3 * DAY);
    paused(async {
        // The place of its creation does not matter.
        let late = RateLimiter::new(Quota::per_hour(1));
        tokio::time::advance(SECOND).await;
        late.try_acquire().unwrap();
        assert_eq!(late.peek().retry_after, Some(3600 * SECOND));
    });
    // Another test, with the same static: it starts fresh.
    let passed = paused(async { drop(acquire_times(&SHARED, 2).await) });
    assert_eq!(passed, DAY);
}

#[cfg(not(feature = "test-util"))]
#[test]
fn without_test_util_real_time_passes_in_paused_time() {
    static SHARED: RateLimiter = RateLimiter::new(FAST);
    for _ in 0..2 {
        let passed = paused(async {
            let before = Clock::system().now();
            let charges = acquire_times(&SHARED, 4).await;
            assert!(charges[0].at() >= before);
            assert_apart(charges, millis(1));
            acquire_twice(LeakyBucket::new(FAST, 10)).await;
        });
        assert_eq!(passed, Duration::ZERO);
    }
    paused(async {
        let slow = RateLimiter::new(Quota::per_day(1));
        slow.try_acquire().unwrap();
        tokio::time::advance(DAY).await;
        assert!(slow.try_acquire().is_err());
    });
}
