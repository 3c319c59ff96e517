//! Tests the samples that an adaptive limit gets from the answers of a service.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use tollgate::throttle::Feedback;
use tollgate::time::ManualClock;
use tollgate::{AcquireError, Clock};
use tollgate_adaptive::{
    AdaptiveRate, AdaptiveSemaphore, Controller, Gradient, SampleWindow, Shared, Target,
};
use tollgate_tower::{ThrottleLayer, feedback};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use crate::support::Waiter;

const MS: Duration = Duration::from_millis(1);

/// A controller that does not change the limit in the few samples of these tests.
struct Fixed;

impl Controller for Fixed {
    fn initial(&self) -> Target {
        let (limit, samples) = (2.0, 1000);
        Target { limit, samples }
    }

    fn update(&mut self, _: &SampleWindow) -> Target {
        self.initial()
    }
}

fn limit() -> (Arc<AdaptiveSemaphore>, ManualClock) {
    let clock = Clock::manual();
    let limit = AdaptiveSemaphore::new(Fixed).max_waiters(0).clock(&clock);
    (Arc::new(limit), clock)
}

/// Returns the number of samples, and how many of them were overloaded.
fn samples(limit: &AdaptiveSemaphore) -> (u32, u32) {
    let window = limit.snapshot().window;
    (window.samples(), window.overloaded())
}

#[test]
fn classify_gets_each_answer_and_each_error() {
    let (limit, clock) = limit();
    let ask = service_fn(async |latency: u32| {
        clock.advance(latency * MS);
        match latency {
            0 => Err("too much to do"),
            _ => Ok(latency),
        }
    });
    let classify = |answer: Result<&u32, &&str>| match answer {
        Ok(7) => Feedback::Ignored,
        Ok(9) | Err(_) => Feedback::OVERLOADED,
        Ok(_) => Feedback::Success,
    };
    let service = ThrottleLayer::new(Shared(Arc::clone(&limit)))
        .classify(classify)
        .layer(ask);
    let mut expected = (0, 0);
    for (latency, overloaded) in [
        (3, Some(0)),
        (7, None),
        (9, Some(1)),
        (0, Some(1)),
        (5, Some(0)),
    ] {
        let answer = Waiter::new(service.clone().oneshot(latency)).output();
        assert_eq!(answer.is_ok(), latency != 0);
        if let Some(overloaded) = overloaded {
            expected = (expected.0 + 1, expected.1 + overloaded);
        }
        assert_eq!(
            (samples(&limit), limit.snapshot().permits.in_use),
            (expected, 0)
        );
    }
    assert_eq!(limit.snapshot().window.mean_latency(), Some(4 * MS));
}

#[test]
fn classify_leaves_rejections_to_the_caller_and_ignores_a_dropped_call() {
    let (limit, clock) = limit();
    let never = service_fn(|(): ()| std::future::pending::<Result<(), BoxError>>());
    let classify = |_: Result<&(), &BoxError>| Feedback::OVERLOADED;
    let mut service = ThrottleLayer::new(Shared(Arc::clone(&limit)))
        .refusing()
        .classify(classify)
        .layer(never);
    let calls = [(); 2].map(|()| Waiter::parked(service.call(())));
    let refused = Waiter::new(service.call(())).output().unwrap_err();
    assert!(refused.is::<AcquireError>());
    clock.advance(8 * MS);
    drop(calls);
    assert_eq!(
        (samples(&limit), limit.snapshot().permits.in_use),
        ((0, 0), 0)
    );
}

#[test]
fn classify_that_panics_ignores_the_call() {
    let (limit, _) = limit();
    let echo = service_fn(async |(): ()| Ok::<_, BoxError>(()));
    let classify = |_: Result<&(), &BoxError>| panic!("as the test wants it");
    let mut service = ThrottleLayer::new(Shared(Arc::clone(&limit)))
        .classify(classify)
        .layer(echo);
    let call = std::panic::AssertUnwindSafe(|| Waiter::new(service.call(())).output());
    assert!(std::panic::catch_unwind(call).is_err());
    assert_eq!(
        (samples(&limit), limit.snapshot().permits.in_use),
        ((0, 0), 0)
    );
}

#[test]
fn overloaded_if_ends_latencies_with_the_head_and_holds_permits_to_the_end_of_the_body() {
    let (limit, clock) = limit();
    let page = service_fn(async |status: u16| {
        clock.advance(u32::from(status) / 100 * MS);
        let mut answer = Response::new(Full::<Bytes>::from("page"));
        *answer.status_mut() = StatusCode::from_u16(status).unwrap();
        Ok::<_, BoxError>(answer)
    });
    let layer = ThrottleLayer::new(Shared(Arc::clone(&limit)));
    let service = layer
        .overloaded_if(|answer| answer.status == 503)
        .layer(page);
    let ask = |status| {
        Waiter::new(service.clone().oneshot(status))
            .output()
            .unwrap()
    };
    let (busy, page) = (ask(503), ask(200));
    assert_eq!(
        (samples(&limit), limit.snapshot().permits.in_use),
        ((2, 1), 2)
    );
    clock.advance(600 * MS);
    drop((page, busy));
    assert_eq!(
        (samples(&limit), limit.snapshot().permits.in_use),
        ((2, 1), 0)
    );
    assert_eq!(limit.snapshot().window.mean_latency(), Some(2 * MS));
}

/// The backend answers nothing, and the callers give up, like clients that disconnect. All their
/// latencies equal their patience, whatever the limit, which looks like slow work.
#[test]
fn overloaded_if_ignores_requests_that_are_dropped_before_their_head() {
    let clock = Clock::manual();
    let limit = Arc::new(AdaptiveSemaphore::new(Gradient::default()).clock(&clock));
    let never =
        service_fn(|(): ()| std::future::pending::<Result<Response<Full<Bytes>>, BoxError>>());
    let layer = ThrottleLayer::new(Shared(Arc::clone(&limit))).overloaded_if(|_| false);
    let mut service = layer.layer(never);
    for _ in 0..1000 {
        let calls: Vec<_> = (0..limit.snapshot().permits.limit)
            .map(|_| Waiter::parked(service.call(())))
            .collect();
        clock.advance(200 * MS);
        drop(calls);
    }
    assert_eq!(
        (
            limit.snapshot().permits.limit,
            limit.snapshot().permits.in_use,
            samples(&limit)
        ),
        (20, 0, (0, 0))
    );
}

#[test]
fn feedback_of_a_response_reads_its_status_and_the_wait_it_asks_for() {
    let of = |status: u16, after: Option<&str>| {
        let answer = Response::builder().status(status);
        let answer = match after {
            Some(after) => answer.header("retry-after", after),
            None => answer,
        };
        feedback(&answer.body(()).unwrap())
    };
    let overloaded = |seconds| Feedback::Overloaded {
        retry_after: Some(Duration::from_secs(seconds)),
    };
    for status in [200, 204, 301, 400, 404, 500, 502] {
        assert_eq!(of(status, Some("3")), Feedback::Success);
    }
    assert_eq!(of(504, Some("3")), Feedback::OVERLOADED);
    assert_eq!(of(403, None), Feedback::Success);
    assert_eq!(of(403, Some("3")), overloaded(3));
    for status in [429, 503] {
        assert_eq!(of(status, None), Feedback::OVERLOADED);
        assert_eq!(of(status, Some("3")), overloaded(3));
        assert_eq!(of(status, Some("soon")), Feedback::OVERLOADED);
    }
}

#[test]
fn classify_tells_a_rate_for_how_long_the_server_wants_to_be_left_alone() {
    let clock = Clock::manual();
    let rate = Arc::new(AdaptiveRate::new().clock(&clock));
    let busy = service_fn(async |(): ()| {
        let answer = Response::builder().status(429).header("retry-after", "3");
        Ok::<_, BoxError>(answer.body(())?)
    });
    let classify =
        |answer: Result<&Response<()>, &BoxError>| answer.map_or(Feedback::Ignored, feedback);
    let mut service = ThrottleLayer::new(Shared(Arc::clone(&rate)))
        .classify(classify)
        .layer(busy);
    assert!(Waiter::new(service.call(())).output().is_ok());
    let mut next = Waiter::parked(service.call(()));
    clock.advance(Duration::from_secs(3) - Duration::from_nanos(1));
    assert!(next.is_pending());
    clock.advance(Duration::from_nanos(1));
    assert!(next.output().is_ok());
    assert_eq!(rate.snapshot().refusals, 2);
}
