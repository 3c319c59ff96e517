//! Counts the allocations of a request through a `PausesLayer` while nothing is paused. One test, because the allocator
//! counts for all threads.

use std::alloc::System;
use std::convert::Infallible;
use std::future::Ready;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::Full;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate::{Quota, RateLimiter, Semaphore, all};
use tollgate_tower::server_limits::Unit;
use tollgate_tower::{ApiLimit, ApiLimits, Pauses, PausesLayer};
use tower::{Layer, Service};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Request = http::Request<Full<Bytes>>;
type Answer = Ready<Result<http::Response<Full<Bytes>>, Infallible>>;

fn answers(_: Request) -> Answer {
    std::future::ready(Ok(http::Response::default()))
}

/// Returns the allocations of a GET with these fields, beyond those of the request itself.
fn allocations<S: Service<Request> + Clone>(client: &S, fields: &[&str]) -> usize {
    let once = || {
        let mut request = http::Request::get("https://example.com/page");
        for field in fields {
            request = request.header(*field, "text");
        }
        let request = request.body(Full::default()).unwrap();
        let mut client = client.clone();
        let mut context = Context::from_waker(Waker::noop());
        assert!(client.poll_ready(&mut context).is_ready());
        let region = Region::new(COUNTED);
        let Poll::Ready(answer) = pin!(client.call(request)).poll(&mut context) else {
            panic!("nothing is paused");
        };
        assert!(answer.is_ok());
        region.change().allocations
    };
    // The first request may initialize state of the process.
    once();
    once()
}

#[test]
fn request_while_nothing_is_paused_allocates_only_the_copy_of_its_head() {
    let inner = tower::service_fn(answers);
    let layer = |retries| PausesLayer::new(Pauses::new().retries(retries));
    let fields = ["accept", "user-agent"];
    assert_eq!(allocations(&inner, &fields), 0);
    assert_eq!(allocations(&layer(0).layer(inner), &fields), 0);
    // The fields, their indices, and one for the first clone of each value.
    assert_eq!(allocations(&layer(2).layer(inner), &fields), 4);
    assert_eq!(allocations(&layer(2).layer(inner), &[]), 0);

    let slots = Arc::new(Semaphore::new(8));
    let rate = Arc::new(RateLimiter::new(Quota::per_second(1_000_000).burst(1000)));
    let limited = layer(0).behind(all((slots, rate)));
    assert_eq!(allocations(&limited.layer(inner), &fields), 0);
    // The costs, the charges, and the charges as they are kept.
    let requests = ApiLimit::new(Unit::Requests, 1_000, Duration::from_secs(60));
    let limited = layer(0).limits(ApiLimits::new([requests]));
    assert_eq!(allocations(&limited.layer(inner), &fields), 3);
}
