//! Tests the layer over HTTP: a throttle by request, the fields that report the limits, the forms of a
//! rejection, and refunds after the answer.
//!
//! The service answers with the status that the path names, so `/401` fails a login.

mod answers;
mod fields;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tollgate::time::ManualClock;
use tollgate::{
    AcquireError, Clock, ErrorKind, Keyed, Quota, RateLimiter, Semaphore, Throttle, all,
};
use tollgate_tower::{
    RateLimitHeaders, RejectionFormat, RequestParts, Responses, ThrottleExtractor, ThrottleLayer,
    ThrottledBody,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::scripted::Log;
use crate::support::{Waiter, assert_at_rest};

pub(super) type Answered<T> = Response<ThrottledBody<Body, <T as Throttle>::Permit>>;

/// Answers with the status in the path.
pub(super) async fn status(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let status = request.uri().path().trim_start_matches('/').parse();
    let mut answer = Response::new(Body::from("answered"));
    *answer.status_mut() = status.unwrap_or(StatusCode::OK);
    Ok(answer)
}

pub(super) fn request(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

/// Returns the answer of a service behind the layer to a request for the path. It is polled once.
pub(super) fn ask<T, F>(layer: &ThrottleLayer<T, F>, path: &str) -> Answered<T>
where
    T: Throttle,
    F: ThrottleExtractor<Request<Body>, T>,
    Responses<T>: Clone,
{
    let answer = layer.layer(service_fn(status)).oneshot(request(path));
    crate::support::Waiter::new(answer).output().unwrap()
}

/// Returns the statuses of the answers to requests for these paths.
pub(super) fn statuses<T, F>(layer: &ThrottleLayer<T, F>, paths: &[&str]) -> Vec<u16>
where
    T: Throttle,
    F: ThrottleExtractor<Request<Body>, T>,
{
    let ask = |path: &&str| ask(layer, path).status().as_u16();
    paths.iter().map(ask).collect()
}

/// Returns the field of an answer, which must occur once.
#[track_caller]
pub(super) fn field<B>(answer: &Response<B>, name: &str) -> String {
    let mut values = answer.headers().get_all(name).iter();
    let value = values.next().unwrap_or_else(|| panic!("no {name}"));
    assert!(values.next().is_none(), "{name} twice");
    value.to_str().unwrap().to_owned()
}

// Tests that the closure chooses the throttle of a request from its head.

fn path(parts: RequestParts<'_>) -> String {
    parts.uri.path().to_owned()
}

/// Returns limiters of one request a second for each path.
fn one_a_second(clock: &ManualClock) -> Arc<Keyed<String, RateLimiter>> {
    let each = RateLimiter::new(Quota::per_second(1)).clock(clock);
    Arc::new(Keyed::new(each))
}

#[test]
fn by_limits_each_key_by_itself() {
    let clock = Clock::manual();
    let paths = one_a_second(&clock);
    let layer = ThrottleLayer::by({
        let paths = Arc::clone(&paths);
        move |parts| Arc::clone(&paths).key_owned(path(parts))
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
    let layer = ThrottleLayer::by(move |parts| {
        (parts.uri.path() != "/health").then(|| Arc::clone(&closed))
    })
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
        move |parts| {
            let cost = if parts.uri.path() == "/report" { 6 } else { 1 };
            let client = Arc::clone(&clients).key_owned(path(parts)).cost(cost);
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
    let paths = one_a_second(&clock);
    let layer = ThrottleLayer::by({
        let paths = Arc::clone(&paths);
        move |parts| Arc::clone(&paths).key_owned(path(parts))
    });
    let mut service = layer.clone().layer(tower::service_fn(status));
    assert_eq!(statuses(&layer, &["/a"]), [200]);
    let mut waits = crate::support::Waiter::new(service.call(request("/a")));
    assert!(waits.is_pending());
    assert_eq!(paths.key(&"/a".to_owned()).snapshot().waiting, 1);
    clock.advance(Duration::from_secs(1));
    assert_eq!(waits.output().unwrap().status(), 200);
    // The wait would exceed the timeout.
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
        move |parts| {
            calls.fetch_add(1, Ordering::Relaxed);
            assert_eq!((parts.method, parts.uri.path()), (&Method::GET, "/204"));
            assert_eq!(parts.headers, &HeaderMap::new());
            assert!(parts.extensions.is_empty());
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
    let layer = ThrottleLayer::by_request(move |request: &Request<_>| {
        let _: &axum::body::Body = request.body();
        (request.uri().path() != "/health").then(|| Arc::clone(&slots))
    })
    .refusing();
    assert_eq!(statuses(&layer, &["/health", "/"]), [200, 429]);
}

// Tests `refund_if`: only some answers count.

#[test]
fn refund_if_counts_only_what_it_does_not_refund() {
    let limiter = RateLimiter::new(Quota::per_hour(1).burst(2)).clock(Clock::manual());
    let limiter = Arc::new(limiter);
    let layer = ThrottleLayer::new(Arc::clone(&limiter))
        .refusing()
        .refund_if(|parts| parts.status != 401);
    assert_eq!(statuses(&layer, &["/200", "/500", "/200"]), [200, 500, 200]);
    assert_eq!(limiter.snapshot().available, 2);
    assert_eq!(
        statuses(&layer, &["/401", "/200", "/401", "/200"]),
        [401, 200, 401, 429]
    );
}

#[test]
fn refund_if_refunds_a_key_and_every_part() {
    let quota = Quota::per_hour(1).burst(10);
    let users = Arc::new(Keyed::<u8, _>::rate_limiters(quota));
    let everyone = Arc::new(RateLimiter::new(quota));
    let layer = ThrottleLayer::by({
        let (users, everyone) = (Arc::clone(&users), Arc::clone(&everyone));
        move |_| {
            all((
                Arc::clone(&users).key_owned(7).cost(3),
                Arc::clone(&everyone),
            ))
        }
    })
    .refusing()
    .refund_if(|parts| parts.status.is_success());
    assert_eq!(statuses(&layer, &["/200", "/401"]), [200, 401]);
    assert_eq!(
        (
            users.key(&7).snapshot().available,
            everyone.snapshot().available
        ),
        (7, 9)
    );
}

#[test]
fn refund_if_rolls_back_once_before_the_body_is_read() {
    let log = Log::default();
    let layer = ThrottleLayer::new(log.part("t")).refund_if(|parts| parts.status == 200);
    let answer = ask(&layer, "/200");
    assert_eq!(log.take(), ["enter t", "in t0", "undo t0"]);
    drop(answer);
    assert!(log.take().is_empty());
    let answer = ask(&layer, "/500");
    assert_eq!(log.take(), ["enter t", "in t1"]);
    drop(answer);
    assert_eq!(log.take(), ["drop t1"]);
}

#[test]
fn refund_if_fields_tell_what_is_left_after_it() {
    let limiter = RateLimiter::new(Quota::per_hour(60).burst(5)).clock(Clock::manual());
    let layer = ThrottleLayer::new(Arc::new(limiter))
        .refusing()
        .headers(RateLimitHeaders::Draft11)
        .refund_if(|parts| parts.status != 401);
    assert_eq!(
        field(&ask(&layer, "/401"), "ratelimit"),
        r#""default";r=4;t=60"#
    );
    assert_eq!(
        field(&ask(&layer, "/200"), "ratelimit"),
        r#""default";r=4;t=60"#
    );
}

#[test]
fn refund_if_panics_and_nothing_is_lost() {
    let slots = Arc::new(Semaphore::new(1));
    let layer = ThrottleLayer::new(Arc::clone(&slots)).refund_if(|_| panic!("on purpose"));
    let asked = crate::support::foreign::panic_message(|| ask(&layer, "/200"));
    assert_eq!(asked.as_deref(), Some("on purpose"));
    assert_at_rest(&slots, 1);
    drop(slots.enter());
}

// Tests rejections as errors, around services of any kind.

/// Halves even numbers.
async fn half(number: u64) -> Result<u64, String> {
    match number % 2 {
        0 => Ok(number / 2),
        _ => Err(format!("{number} is odd")),
    }
}

#[test]
fn errors_fit_any_service() {
    let slots = Arc::new(Semaphore::new(1));
    let layer = ThrottleLayer::new(Arc::clone(&slots)).refusing().errors();
    let service = layer.layer(service_fn(half));
    let ask = |number| Waiter::new(service.clone().oneshot(number)).output();
    assert_eq!(ask(14).unwrap(), 7);
    assert_eq!(ask(13).unwrap_err().to_string(), "13 is odd");
    let held = slots.try_acquire().unwrap();
    let refused = ask(14).unwrap_err().downcast::<AcquireError>().unwrap();
    assert_eq!(refused.kind(), ErrorKind::NoPermits);
    drop(held);
    assert_at_rest(&slots, 1);
}

#[test]
fn errors_hold_the_permit_until_the_answer_is_there() {
    let slots = Arc::new(Semaphore::new(1));
    let never = service_fn(|(): ()| std::future::pending::<Result<(), String>>());
    let mut service = ThrottleLayer::new(Arc::clone(&slots)).errors().layer(never);
    let mut first = Waiter::new(service.call(()));
    let mut second = Waiter::new(service.call(()));
    assert!(first.is_pending() && second.is_pending());
    assert_eq!(
        (slots.available_permits(), slots.snapshot().waiting),
        (0, 1)
    );
    drop((first, second));
    assert_at_rest(&slots, 1);
}

#[test]
fn errors_by_request_limit_each_key() {
    let slots = Arc::new(Keyed::<u64, _>::semaphores(1));
    let layer = ThrottleLayer::by_request({
        let slots = Arc::clone(&slots);
        move |number: &u64| Arc::clone(&slots).key_owned(*number)
    })
    .refusing();
    let service = layer.errors().layer(service_fn(half));
    let held = slots.key(&8).try_acquire().unwrap();
    let ask = |number| Waiter::new(service.clone().oneshot(number)).output();
    assert!(ask(8).is_err_and(|error| error.is::<AcquireError>()));
    assert_eq!(ask(6).unwrap(), 3);
    drop(held);
    assert_eq!(ask(8).unwrap(), 4);
}

// Tests a service of hyper alone, over a connection in memory.

#[tokio::test]
async fn the_layer_fits_a_service_of_hyper() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1)));
    let layer = ThrottleLayer::by(move |parts| {
        (parts.uri.path() != "/health").then(|| Arc::clone(&limiter))
    })
    .refusing();
    let service = layer
        .rejection_format(RejectionFormat::ProblemJson)
        .layer(service_fn(async |_: hyper::Request<Incoming>| {
            Ok::<_, std::convert::Infallible>(hyper::Response::new(Full::new(Bytes::from("hello"))))
        }));
    let (ours, theirs) = tokio::io::duplex(4096);
    let server = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(theirs), TowerToHyperService::new(service));
    let server = tokio::spawn(server);
    let (mut client, connection) = hyper::client::conn::http1::handshake(TokioIo::new(ours))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);

    let mut answers = Vec::new();
    for path in ["/", "/", "/health"] {
        let answer = client.send_request(request(path)).await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        answers.push((status, text.starts_with(b"hello")));
    }
    assert_eq!(answers, [(200, true), (429, false), (200, true)]);
    drop(client);
    connection.await.unwrap().unwrap();
    server.await.unwrap().unwrap();
}
