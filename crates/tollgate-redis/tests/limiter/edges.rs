//! Numbers and keys that are no good.

use std::time::Duration;

use crate::support::{algorithms, on_server, slow};
use tollgate::{Algorithm, ErrorKind, Quota};
use tollgate_redis::{Detector, LimitSet, RateLimiter, StoreError};

#[test]
fn charge_of_too_much_is_an_error() {
    on_server(async |server| {
        let store = server.store();
        for algorithm in algorithms() {
            let limiter = RateLimiter::new(&store, algorithm.to_string(), Quota::per_hour(1000))
                .algorithm(algorithm);
            for n in [u64::MAX, 1 << 60] {
                let error = limiter.charge(n).await.unwrap_err();
                assert_eq!(error, StoreError::Script, "{algorithm}");
            }
            let large = limiter.charge(1 << 45).await;
            assert_eq!(large.is_err(), algorithm == Algorithm::SlidingLog);
            limiter.peek(1).await.unwrap();
        }
    });
}

#[test]
fn peek_of_a_key_of_another_rule_is_an_error() {
    on_server(async |server| {
        let store = server.store();
        let by = |algorithm| RateLimiter::new(&store, "k", slow(10)).algorithm(algorithm);
        let kinds = [
            Algorithm::Gcra,
            Algorithm::SlidingWindow,
            Algorithm::SlidingLog,
        ];
        for first in kinds {
            let charge = by(first).acquire().await.unwrap();
            for other in kinds.into_iter().filter(|other| *other != first) {
                assert_eq!(by(other).peek(1).await, Err(StoreError::WrongType));
            }
            by(first).refund(charge).await.unwrap();
        }
    });
}

#[test]
fn limit_set_acquire_many_of_more_than_a_burst_is_never_admitted() {
    on_server(async |server| {
        let limits = LimitSet::new(&server.store())
            .limit("a", slow(5))
            .limit("b", slow(9));
        let outcome = limits.try_acquire_many(6).await.unwrap();
        assert!(!outcome.is_admitted());
        assert_eq!(outcome.violated().collect::<Vec<_>>(), [0]);
        let decisions = limits.peek(6).await.unwrap();
        let waits = [decisions[0].retry_after, decisions[1].retry_after];
        assert_eq!(waits, [Duration::MAX, Duration::ZERO]);
        let refused = limits.acquire_many(6).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ExceedsCapacity);
    });
}

#[test]
#[should_panic(expected = "the key \"a\" is given twice")]
fn limit_set_limit_of_a_key_twice_panics() {
    on_server(async |server| {
        let _ = LimitSet::new(&server.store())
            .limit("a", slow(5))
            .limit("a", slow(9));
    });
}

#[test]
fn pass_at_the_threshold_does_not_block() {
    on_server(async |server| {
        let detector = Detector::new(&server.store(), "abuse", slow(600));
        detector.record_many("alice", 600);
        assert_eq!(detector.pass().await, Ok(0));
        // Nothing comes back while the test runs, but for parts of one.
        detector.record_many("alice", 2);
        assert_eq!(detector.pass().await, Ok(1));
    });
}
