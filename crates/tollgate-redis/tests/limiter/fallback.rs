//! Who decides while the store cannot.

use std::time::Duration;

use crate::support::{failure, on_server, slow};
use tollgate::{Algorithm, ErrorKind, Quota};
use tollgate_redis::{Fallback, RateLimiter, Source, StoreError};

#[test]
fn fallback_local_uses_the_same_algorithm_and_leaves_a_debt() {
    on_server(async |server| {
        let (quota, store) = (Quota::per_day(8), server.store());
        let limiter = |algorithm| {
            RateLimiter::new(&store, "k", quota)
                .algorithm(algorithm)
                .fallback(Fallback::Local { share: 4 })
        };
        let window = limiter(Algorithm::FixedWindow);
        let log = limiter(Algorithm::SlidingLog);
        server.kill();
        for limiter in [&window, &log] {
            // All of the share at once, as it does not come evenly.
            let charge = limiter.try_acquire_many(2).await.unwrap();
            assert_eq!(charge.source(), Source::Fallback);
            let refused = limiter.try_acquire().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::RateLimited);
            assert_eq!(Source::of(&refused), Some(Source::Fallback));
            limiter.refund(charge).await.unwrap();
        }
        // More than a share, but no more than the quota.
        let other = limiter(Algorithm::FixedWindow);
        other.try_acquire_many(8).await.unwrap();
        other.try_acquire().await.unwrap_err();
        let refused = other.try_acquire_many(9).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ExceedsCapacity);
    });
}

#[test]
fn reserve_and_try_acquire_up_to_without_a_server_use_the_fallback() {
    on_server(async |server| {
        let store = server.store();
        let limiter = |fallback| RateLimiter::new(&store, "k", slow(8)).fallback(fallback);
        let closed = limiter(Fallback::FailClosed);
        let open = limiter(Fallback::FailOpen);
        let local = limiter(Fallback::Local { share: 4 });
        server.kill();
        let refused = closed.reserve(Duration::MAX).await.unwrap_err();
        let _typed = failure(&refused);

        let reserved = open.reserve_many(3, Duration::ZERO).await.unwrap();
        assert_eq!((reserved.cost(), reserved.delay()), (3, Duration::ZERO));
        assert_eq!(open.try_acquire_up_to(5).await.unwrap().cost(), 5);

        let charge = local.try_acquire_up_to(5).await.unwrap();
        assert_eq!((charge.cost(), charge.source()), (2, Source::Fallback));
        let refused = local.reserve(Duration::MAX).await.unwrap_err();
        assert_eq!(Source::of(&refused), Some(Source::Fallback));
    });
}

#[test]
fn settle_of_the_fallback_refunds_the_rest_alone() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", slow(8));
        let limiter = limiter.fallback(Fallback::Local { share: 4 });
        server.kill();
        let charge = limiter.try_acquire_many(2).await.unwrap();
        limiter.settle(charge, 1).await.unwrap();
        limiter.try_acquire().await.unwrap();
        let refused = limiter.try_acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
    });
}

#[test]
fn acquire_that_fails_fails_the_whole_queue() {
    on_server(async |server| {
        let deadline = Duration::from_millis(300);
        let limiter = RateLimiter::new(&server.store().deadline(deadline), "k", slow(100));
        limiter.acquire().await.unwrap();
        server.stop();
        // The second joins in the poll in which the first has asked the server.
        let (first, second) = tokio::join!(limiter.acquire(), limiter.acquire());
        assert_eq!(failure(&first.unwrap_err()), StoreError::Timeout);
        // Not by a deadline of its own, after that of the first one: it was not asked for.
        assert_eq!(failure(&second.unwrap_err()), StoreError::Unavailable);
        server.go_on();
    });
}
