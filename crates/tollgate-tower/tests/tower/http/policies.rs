//! Whose limit it was decides the status.

use std::sync::Arc;

use tollgate::{Keyed, Quota, RateLimiter, Semaphore, all};
use tollgate_tower::{Policy, ThrottleLayer};

use super::{ask, statuses};

fn closed() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(0))
}

fn open() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(1000))
}

#[test]
fn policies_of_the_server_refuse_with_503() {
    let policies = || [Policy::client("a"), Policy::server("b")];
    let client = ThrottleLayer::new(all((closed(), open())))
        .refusing()
        .policies(policies());
    assert_eq!(statuses(&client, &["/"]), [429]);
    let server = ThrottleLayer::new(all((open(), closed())))
        .refusing()
        .policies(policies());
    assert_eq!(statuses(&server, &["/"]), [503]);
    // A status of one's own is for clients.
    let teapot = axum::http::StatusCode::IM_A_TEAPOT;
    assert_eq!(statuses(&client.status(teapot), &["/"]), [418]);
    assert_eq!(statuses(&server.status(teapot), &["/"]), [503]);
}

#[test]
fn policies_find_the_part_of_a_nested_composition_that_is_exhausted() {
    let policies = || {
        [
            Policy::client("a"),
            Policy::client("b"),
            Policy::server("c"),
            Policy::client("d"),
        ]
    };
    let table = [
        ([closed(), open(), open(), open()], 429),
        ([open(), closed(), open(), open()], 429),
        ([open(), open(), closed(), open()], 503),
        ([open(), open(), open(), closed()], 429),
    ];
    for ([a, b, c, d], expected) in table {
        let layer = ThrottleLayer::new(all((a, all((b, c)), d)))
            .refusing()
            .policies(policies());
        assert_eq!(statuses(&layer, &["/"]), [expected]);
    }
}

#[test]
fn policies_of_a_throttle_that_is_not_composed() {
    let slots = ThrottleLayer::new(closed())
        .refusing()
        .policies([Policy::server("slots")]);
    assert_eq!(ask(&slots, "/").status(), 503);
    // With a cost above what is left, the limit is not exhausted, but it was the one.
    let keyed = Arc::new(Keyed::<u8, _>::rate_limiters(Quota::per_hour(1).burst(10)));
    let layer = ThrottleLayer::by(move |_| Arc::clone(&keyed).key_owned(7).cost(6))
        .refusing()
        .policies([Policy::server("work")]);
    assert_eq!(statuses(&layer, &["/", "/"]), [200, 503]);
}

/// Nothing is exhausted, and the client may not come again.
#[test]
fn policies_of_a_client_refuse_a_request_above_their_capacity_with_413() {
    let limit = |burst| Arc::new(RateLimiter::new(Quota::per_hour(1).burst(burst)));
    let table = [([10, 10], 200), ([5, 10], 413), ([10, 5], 503)];
    for ([client, server], expected) in table {
        let throttle = all((limit(client).cost_owned(6), limit(server).cost_owned(6)));
        let layer = ThrottleLayer::new(throttle)
            .refusing()
            .headers(tollgate_tower::RateLimitHeaders::Draft11)
            .status(axum::http::StatusCode::IM_A_TEAPOT)
            .policies([Policy::client("user"), Policy::server("total")])
            .answer(tollgate_tower::Answer::ProblemJson);
        let answer = ask(&layer, "/");
        assert_eq!(answer.status(), expected);
        assert!(!answer.headers().contains_key("retry-after"));
    }
    // Also if another limit is exhausted, which says when it has more.
    let exhausted = limit(1);
    exhausted.try_acquire().unwrap();
    let throttle = all((limit(5).cost_owned(6), exhausted));
    let answer = ask(
        &ThrottleLayer::new(throttle)
            .refusing()
            .headers(tollgate_tower::RateLimitHeaders::Draft11),
        "/",
    );
    assert_eq!(answer.status(), 413);
    assert!(!answer.headers().contains_key("retry-after"));
}

#[test]
fn policies_may_be_fewer_than_limits() {
    let rate = Arc::new(RateLimiter::new(Quota::per_hour(1)));
    let layer = ThrottleLayer::new(all((open(), rate)))
        .refusing()
        .policies([Policy::server("slots")]);
    assert_eq!(statuses(&layer, &["/", "/"]), [200, 429]);
}

/// A timeout that has passed names no part.
#[tokio::test(start_paused = true)]
async fn policies_of_a_timeout_are_those_of_the_limit_that_is_exhausted() {
    use tower::{Layer, ServiceExt, service_fn};

    let rate = || Arc::new(RateLimiter::new(Quota::per_hour(1).burst(100)));
    let second = std::time::Duration::from_secs(1);
    let policies = || [Policy::client("user"), Policy::server("slots")];
    let layer = ThrottleLayer::new(all((rate(), closed()))).timeout(second);
    let service = layer.policies(policies()).layer(service_fn(super::status));
    let answer = service.oneshot(super::request("/")).await.unwrap();
    assert_eq!(answer.status(), 503);
    let layer = ThrottleLayer::new(all((open(), closed()))).timeout(second);
    let policies = [Policy::server("all"), Policy::client("slots")];
    let service = layer.policies(policies).layer(service_fn(super::status));
    let answer = service.oneshot(super::request("/")).await.unwrap();
    assert_eq!(answer.status(), 429);
}

#[test]
fn policies_keep_their_limits_when_a_composition_is_missing() {
    let policies = ["a", "b"].map(Policy::client);
    let policies = || policies.iter().cloned().chain([Policy::server("total")]);
    let pair = all((open(), open()));
    for pair in [Some(pair), None] {
        let layer = ThrottleLayer::new(all((pair, closed())))
            .refusing()
            .policies(policies());
        assert_eq!(statuses(&layer, &["/"]), [503]);
    }
}

/// A wrapper that forwards only what must be forwarded.
#[test]
fn policies_of_a_wrapper_are_those_of_the_limit_that_is_exhausted() {
    use tollgate::throttle::{Inspect, LimitStatus};
    use tollgate::{AcquireError, Throttle, TryThrottle, Waiting};

    #[derive(Clone)]
    struct Wrapped<T>(T);

    impl<T: Throttle> Throttle for Wrapped<T> {
        type Permit = T::Permit;
        type Enter = T::Enter;

        fn enter(&self) -> Waiting<T::Enter> {
            self.0.enter()
        }

        fn rollback(&self, permit: T::Permit) {
            self.0.rollback(permit);
        }
    }

    impl<T: TryThrottle> TryThrottle for Wrapped<T> {
        fn try_enter(&self) -> Result<T::Permit, AcquireError> {
            self.0.try_enter()
        }
    }

    impl<T: Inspect> Inspect for Wrapped<T> {
        fn inspect(&self, permit: Option<&T::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
            self.0.inspect(permit, each);
        }
    }

    let policies = [Policy::client("a"), Policy::server("b")];
    let layer = ThrottleLayer::new(Wrapped(all((open(), closed()))))
        .refusing()
        .policies(policies);
    assert_eq!(statuses(&layer, &["/"]), [503]);
}

#[test]
fn policies_are_not_violated_by_a_throttle_that_is_closed() {
    let slots = open();
    slots.close();
    let layer = ThrottleLayer::new(slots)
        .refusing()
        .policies([Policy::client("user")])
        .answer(tollgate_tower::Answer::ProblemJson);
    let refused = ask(&layer, "/");
    assert_eq!(refused.status(), 503);
    let body = axum::body::Body::new(refused.into_body());
    let text = crate::support::Waiter::new(axum::body::to_bytes(body, 1000))
        .output()
        .unwrap();
    assert!(
        !String::from_utf8(text.to_vec())
            .unwrap()
            .contains("violated")
    );
}
