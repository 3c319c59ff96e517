//! Tests the forms of a rejection.

use std::sync::Arc;
use std::time::Duration;

use axum::body::to_bytes;
use http_body_util::BodyExt;
use hyper::body::Body;
use serde_json::{Value, json};
use tollgate::{AcquireError, Clock, Keyed, Quota, RateLimiter, Semaphore, all};
use tollgate_tower::{Policy, RateLimitHeaders, RejectionFormat, ThrottleLayer};

use super::{ask, field, statuses};
use crate::support::Waiter;

fn hourly() -> Arc<RateLimiter> {
    let limiter = RateLimiter::new(Quota::per_hour(1)).clock(Clock::manual());
    limiter.charge(1);
    Arc::new(limiter)
}

#[test]
fn problem_json_names_the_type_the_status_and_the_policy() {
    let rate = hourly();
    let quoted = r#"per "ip" \ day"#;
    let table = [
        (
            Some(Policy::client(quoted)),
            "quota-exceeded",
            429,
            json!([quoted]),
        ),
        (
            Some(Policy::server("slots")),
            "temporary-reduced-capacity",
            503,
            json!(["slots"]),
        ),
        (None, "quota-exceeded", 429, Value::Null),
    ];
    for (policy, kind, status, violated) in table {
        let layer = ThrottleLayer::new(Arc::clone(&rate))
            .refusing()
            .policies(policy)
            .rejection_format(RejectionFormat::ProblemJson);
        let refused = ask(&layer, "/");
        assert_eq!(refused.status(), status);
        assert_eq!(field(&refused, "content-type"), "application/problem+json");
        assert_eq!(field(&refused, "retry-after"), "3600");
        assert_eq!(field(&refused, "cache-control"), "no-store");
        assert!(refused.extensions().get::<AcquireError>().is_some());
        let length = refused.body().size_hint().exact();
        assert!(!refused.body().is_end_stream());
        let read = Waiter::new(to_bytes(axum::body::Body::new(refused.into_body()), 1000)).output();
        let text = read.unwrap();
        assert_eq!(length, Some(text.len() as u64));
        let problem: Value = serde_json::from_slice(&text).unwrap();
        let kind = format!("https://iana.org/assignments/http-problem-types#{kind}");
        assert_eq!(
            (&problem["type"], &problem["status"]),
            (&json!(kind), &json!(status))
        );
        assert_eq!(problem["violated-policies"], violated);
        assert!(problem["title"].is_string());
    }
}

#[test]
fn problem_json_ends_after_its_text() {
    let layer = ThrottleLayer::new(hourly())
        .refusing()
        .rejection_format(RejectionFormat::ProblemJson);
    let mut body = ask(&layer, "/").into_body();
    let frame = Waiter::new(body.frame()).output().unwrap().unwrap();
    assert!(frame.is_data() && body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(0));
    assert!(Waiter::new(body.frame()).output().is_none());
}

#[test]
fn grpc_answers_with_trailers_only() {
    let rate = hourly();
    let (client, server) = (Policy::client("rate"), Policy::server("rate"));
    let (quota, capacity) = ("The quota is exceeded", "Capacity is temporarily reduced");
    for (policy, code, message) in [(client, "8", quota), (server, "14", capacity)] {
        let layer = ThrottleLayer::new(Arc::clone(&rate))
            .refusing()
            .policies([policy])
            .rejection_format(RejectionFormat::Grpc);
        let refused = ask(&layer, "/");
        assert_eq!(refused.status(), 200);
        assert_eq!(field(&refused, "content-type"), "application/grpc");
        assert_eq!(field(&refused, "grpc-status"), code);
        assert_eq!(field(&refused, "grpc-message"), message);
        assert_eq!(field(&refused, "grpc-retry-pushback-ms"), "3600000");
        assert!(refused.headers().get("retry-after").is_none());
        assert!(refused.body().is_end_stream());
    }
}

#[test]
fn grpc_rounds_the_time_up_and_leaves_out_what_is_not_known() {
    let clock = Clock::manual();
    let rate = RateLimiter::new(Quota::new(1, Duration::from_nanos(1_500_001))).clock(&clock);
    rate.charge(1);
    let layer = ThrottleLayer::new(Arc::new(rate))
        .refusing()
        .rejection_format(RejectionFormat::Grpc);
    assert_eq!(field(&ask(&layer, "/"), "grpc-retry-pushback-ms"), "2");
    let slots = ThrottleLayer::new(Arc::new(Semaphore::new(0)))
        .refusing()
        .rejection_format(RejectionFormat::Grpc);
    assert!(
        ask(&slots, "/")
            .headers()
            .get("grpc-retry-pushback-ms")
            .is_none()
    );
}

#[test]
fn grpc_pushback_is_no_earlier_than_the_fields_and_fits_32_bits() {
    let clock = Clock::manual();
    let limiter = |quota: Quota| {
        let limiter = RateLimiter::new(quota).clock(&clock);
        limiter.charge(1);
        Arc::new(limiter)
    };
    let both = all((limiter(Quota::per_second(1)), limiter(Quota::per_hour(1))));
    let layer = ThrottleLayer::new(both)
        .refusing()
        .headers(RateLimitHeaders::Draft11)
        .rejection_format(RejectionFormat::Grpc);
    assert_eq!(
        field(&ask(&layer, "/"), "grpc-retry-pushback-ms"),
        "3600000"
    );
    let month = limiter(Quota::new(1, Duration::from_secs(30 * 86_400)));
    let layer = ThrottleLayer::new(month)
        .refusing()
        .rejection_format(RejectionFormat::Grpc);
    assert_eq!(
        field(&ask(&layer, "/"), "grpc-retry-pushback-ms"),
        "2147483647"
    );
}

/// The error of a store may name machines.
#[test]
fn rejections_say_nothing_of_the_inside() {
    #[derive(Debug)]
    struct Source;
    impl std::error::Error for Source {}
    impl std::fmt::Display for Source {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("10.0.3.7")
        }
    }
    static SOURCE: &(dyn std::error::Error + Send + Sync) = &Source;

    #[derive(Clone)]
    struct Fails;
    impl tollgate::Throttle for Fails {
        type Permit = ();
        type Enter = std::future::Ready<Result<(), AcquireError>>;
        fn enter(&self) -> tollgate::wait::Waiting<Self::Enter> {
            tollgate::wait::Waiting::new(std::future::ready(Err(AcquireError::store(&SOURCE))))
        }
    }
    for format in [
        RejectionFormat::Empty,
        RejectionFormat::ProblemJson,
        RejectionFormat::Grpc,
    ] {
        let refused = ask(&ThrottleLayer::new(Fails).rejection_format(format), "/");
        assert!(refused.extensions().get::<AcquireError>().is_some());
        assert!(!format!("{:?}", refused.headers()).contains("10.0"));
        let body = axum::body::Body::new(refused.into_body());
        let text = Waiter::new(to_bytes(body, 1000)).output().unwrap();
        assert!(!String::from_utf8(text.to_vec()).unwrap().contains("10.0"));
    }
}

#[test]
fn answer_in_any_form_gives_back_what_earlier_parts_took() {
    let slots = Arc::new(Semaphore::new(1));
    for format in [
        RejectionFormat::Empty,
        RejectionFormat::ProblemJson,
        RejectionFormat::Grpc,
    ] {
        let layer = ThrottleLayer::new(all((Arc::clone(&slots), hourly())))
            .refusing()
            .rejection_format(format);
        let refused = ask(&layer, "/");
        assert_eq!(slots.available_permits(), 1, "{format:?}");
        drop(refused);
    }
}

// Tests that the owner of the limit decides the status.

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
    // A custom status applies to limits of clients.
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
    // With a cost above the remaining capacity, the limit is not exhausted, but it rejected the request.
    let keyed = Arc::new(Keyed::<u8, _>::rate_limiters(Quota::per_hour(1).burst(10)));
    let layer = ThrottleLayer::by(move |_| Arc::clone(&keyed).key_owned(7).cost(6))
        .refusing()
        .policies([Policy::server("work")]);
    assert_eq!(statuses(&layer, &["/", "/"]), [200, 503]);
}

/// No limit is exhausted, and the client must not try again.
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
            .rejection_format(tollgate_tower::RejectionFormat::ProblemJson);
        let answer = ask(&layer, "/");
        assert_eq!(answer.status(), expected);
        assert!(!answer.headers().contains_key("retry-after"));
    }
    // The same holds if another limit is exhausted and reports its reset.
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

/// The error of an expired timeout names no part.
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

/// A wrapper that forwards only the required methods.
#[test]
fn policies_of_a_wrapper_are_those_of_the_limit_that_is_exhausted() {
    use tollgate::throttle::{Inspect, LimitStatus};
    use tollgate::wait::Waiting;
    use tollgate::{AcquireError, Throttle, TryThrottle};

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
        .rejection_format(tollgate_tower::RejectionFormat::ProblemJson);
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
