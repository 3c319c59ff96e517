//! The throttle of a request is what the closure returns from its head.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, Method};
use tollgate::{Clock, Keyed, Quota, RateLimiter, Semaphore, all};
use tollgate_tower::{Head, ThrottleLayer};
use tower::{Layer, Service};

use super::{ask, field, request, status, statuses};
use crate::support::assert_at_rest;

fn path(head: Head<'_>) -> String {
    head.uri.path().to_owned()
}

#[test]
fn by_limits_each_key_by_itself() {
    let clock = Clock::manual();
    let paths = Keyed::<String, _>::new(RateLimiter::new(Quota::per_second(1)).clock(&clock));
    let paths = Arc::new(paths);
    let layer = ThrottleLayer::by({
        let paths = Arc::clone(&paths);
        move |head| Arc::clone(&paths).key_owned(path(head))
    })
    .refusing();
    assert_eq!(
        statuses(&layer, &["/a", "/b", "/a", "/b"]),
        [200, 200, 429, 429]
    );
    clock.advance(Duration::from_secs(1));
    assert_eq!(statuses(&layer, &["/a", "/c"]), [200, 200]);
    assert_eq!(paths.len(), 3);
}

#[test]
fn by_none_admits_every_request() {
    let closed = Arc::new(Semaphore::new(0));
    let layer =
        ThrottleLayer::by(move |head| (head.uri.path() != "/health").then(|| Arc::clone(&closed)))
            .refusing();
    assert_eq!(
        statuses(&layer, &["/health", "/", "/health"]),
        [200, 429, 200]
    );
}

#[test]
fn by_cost_charges_it_and_all_charges_every_part() {
    let quota = Quota::per_hour(1).burst(10);
    let clients = Arc::new(Keyed::<String, _>::rate_limiters(quota));
    let everyone = Arc::new(RateLimiter::new(quota));
    let layer = ThrottleLayer::by({
        let (clients, everyone) = (Arc::clone(&clients), Arc::clone(&everyone));
        move |head| {
            let cost = if head.uri.path() == "/report" { 6 } else { 1 };
            let client = Arc::clone(&clients).key_owned(path(head)).cost(cost);
            all((client, Arc::clone(&everyone)))
        }
    })
    .refusing();
    assert_eq!(
        statuses(&layer, &["/report", "/report", "/"]),
        [200, 429, 200]
    );
    let report = "/report".to_owned();
    assert_eq!(
        (
            clients.key(&report).snapshot().available,
            everyone.snapshot().available
        ),
        (4, 8)
    );
}

#[test]
fn by_waits_and_timeouts_are_those_of_the_key() {
    let clock = Clock::manual();
    let paths = Keyed::<String, _>::new(RateLimiter::new(Quota::per_second(1)).clock(&clock));
    let paths = Arc::new(paths);
    let layer = ThrottleLayer::by({
        let paths = Arc::clone(&paths);
        move |head| Arc::clone(&paths).key_owned(path(head))
    });
    let mut service = layer.clone().layer(tower::service_fn(status));
    assert_eq!(statuses(&layer, &["/a"]), [200]);
    let mut waits = crate::support::Waiter::new(service.call(request("/a")));
    assert!(waits.is_pending());
    assert_eq!(paths.key(&"/a".to_owned()).snapshot().waiting, 1);
    clock.advance(Duration::from_secs(1));
    assert_eq!(waits.output().unwrap().status(), 200);
    // The wait would be longer.
    let impatient = layer.timeout(Duration::from_millis(999));
    let refused = ask(&impatient, "/a");
    assert_eq!(
        (refused.status().as_u16(), &*field(&refused, "retry-after")),
        (429, "1")
    );
}

#[test]
fn by_is_called_once_with_the_head_of_the_request() {
    let calls = Arc::new(AtomicUsize::new(0));
    let slots = Arc::new(Semaphore::new(1));
    let layer = ThrottleLayer::by({
        let (calls, slots) = (Arc::clone(&calls), Arc::clone(&slots));
        move |head| {
            calls.fetch_add(1, Ordering::Relaxed);
            assert_eq!((head.method, head.uri.path()), (&Method::GET, "/204"));
            assert_eq!(head.headers, &HeaderMap::new());
            assert!(head.extensions.is_empty());
            Arc::clone(&slots)
        }
    });
    let mut service = layer.layer(tower::service_fn(status));
    let unpolled = service.call(request("/204"));
    assert_eq!(
        (calls.load(Ordering::Relaxed), slots.available_permits()),
        (1, 1)
    );
    drop(unpolled);
    assert_eq!(ask(&layer, "/204").status(), 204);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert_at_rest(&slots, 1);
}

#[test]
fn by_request_sees_a_request_over_http_whole() {
    let slots = Arc::new(Semaphore::new(0));
    let layer = ThrottleLayer::by_request(move |request: &super::Request<_>| {
        let _: &axum::body::Body = request.body();
        (request.uri().path() != "/health").then(|| Arc::clone(&slots))
    })
    .refusing();
    assert_eq!(statuses(&layer, &["/health", "/"]), [200, 429]);
}
