//! On other clocks, and as a value.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Algorithm, Clock, ErrorKind, Quota, RateLimiter};

#[test]
fn it_is_for_a_limiter_that_others_share() {
    static SHARED: RateLimiter = RateLimiter::new(Quota::per_hour(1).burst(10));
    let mut local = SHARED.local(4);
    local.try_acquire().unwrap();
    assert!(SHARED.try_acquire_many(7).is_err());
    let owned = Arc::new(RateLimiter::new(Quota::per_hour(1)));
    let mut local = owned.local(4);
    local.try_acquire().unwrap();
    assert!(owned.try_acquire().is_err());
}

#[test]
fn it_shows_what_it_has_in_hand() {
    let limiter = RateLimiter::new(Quota::per_hour(1).burst(10));
    let mut local = limiter.local(4);
    local.try_acquire().unwrap();
    let shown = format!("{local:?}");
    assert_eq!(shown, "LocalLimiter { buffered: 3, batch: 4, .. }");
    let shown = format!("{:?}", local.acquire_many(2));
    assert_eq!(shown, "AcquireLocal { cost: 2, waiting: false, .. }");
}

#[test]
fn whatever_the_rule_all_is_let_through_and_no_more_and_the_rest_given_back() {
    let rules = [
        Algorithm::TokenBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ];
    for algorithm in rules {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(Quota::per_second(10))
            .algorithm(algorithm)
            .clock(&clock);
        let mut local = limiter.local(4);
        for _ in 0..10 {
            local.try_acquire().unwrap();
        }
        let refused = local.try_acquire().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited, "{algorithm}");
        clock.advance(refused.retry_after().unwrap());
        local.try_acquire().unwrap();

        clock.advance(Duration::from_secs(10));
        local.return_unused();
        local.try_acquire_many(2).unwrap();
        local.return_unused();
        assert_eq!(limiter.available(), 8, "{algorithm}");
    }
}

/// What is in hand is of a limiter that starts fresh in the second runtime, and is not given back to
/// that.
#[cfg(feature = "tokio")]
#[test]
fn in_another_runtime_the_limiter_starts_fresh_and_gets_nothing_back() {
    use crate::support::paused_runtime;

    let limiter = RateLimiter::new(Quota::per_hour(1).burst(10)).clock(Clock::tokio());
    let (first, second) = (paused_runtime(), paused_runtime());
    let mut local = limiter.local(4);
    first.block_on(async { local.try_acquire().unwrap() });
    second.block_on(async {
        for _ in 0..3 {
            local.try_acquire().unwrap();
        }
        local.try_acquire().unwrap();
        assert_eq!(limiter.available(), 6);
        local.return_unused();
        assert_eq!(limiter.available(), 9);
    });
    first.block_on(async { local.try_acquire().unwrap() });
    second.block_on(async {
        local.return_unused();
    });
}
