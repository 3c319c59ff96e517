//! Measures a request through a layer that limits each client, around a service that answers at once.
//!
//! As with axum, each request has the address of its peer in its extensions, and calls a clone of the
//! service. The answer's body is dropped, which gives a permit back. The quota is never
//! exhausted.

use std::convert::Infallible;
use std::future::Ready;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response, StatusCode, Uri, header};
use futures::executor::block_on;
use tollgate::{Keyed, Quota, RateLimiter, Semaphore};
use tollgate_tower::{ClientIp, IpNet, RateLimitHeaders, RetryAfterLayer, ThrottleLayer};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

use crate::harness::{Row, alone};
use crate::rows;

/// The requests of a second, and the burst.
const PLENTY: u64 = 1_000_000_000;

/// The number of clients.
const CLIENTS: u32 = 1000;

/// A request through the layer over HTTP, next to tower_governor and tower's own limit.
///
/// Every call creates its request and its answer. This cost is in all columns, and is the whole cost of
/// `no layer`.
#[must_use]
pub fn rows() -> Vec<Row> {
    rows! {
        alone "http: a request by client"
            {"layer by closure" => by_client, "tower_governor": 0.70 => governor,
             "Keyed by hand" => by_hand, "no layer" => || requests(Answers)};
        alone "http: a request by client, with fields"
            {"layer, Draft11" => || by_client_with(RateLimitHeaders::Draft11),
             "tower_governor, x-ratelimit": 0.70 => governor_with_fields,
             "layer, Legacy" => || by_client_with(RateLimitHeaders::Legacy),
             "layer without fields" => by_client};
        alone "http: a rejected request"
            {"layer by closure" => rejected_by_client, "tower_governor": 0.70 => rejected_by_governor};
        alone "http: a request with a slot"
            {"layer" => || requests(ThrottleLayer::new(Arc::new(Semaphore::new(8))).layer(Answers)),
             "tower ConcurrencyLimit" => || requests(ConcurrencyLimitLayer::new(8).layer(Answers)),
             "no layer" => || requests(Answers)};
    }
}

/// Requests of a client that waits as servers ask it to, by the number of its gates.
#[must_use]
pub fn origins() -> Vec<Row> {
    // The limit of a refusal is 5 µs; without a layer it takes 0.15 µs.
    rows! {
        alone "http: a refusal by a new origin, 100,000 gates"
            {"full table" => || refused_by_new_origins(100_000),
             "no layer": 30.0 => refused_without_a_layer,
             "full table of 64" => || refused_by_new_origins(64)};
        alone "http: a request to an origin without a pause"
            {"no gates" => || polite_beside(0), "beside 1,024 gates" => || polite_beside(1024),
             "beside 100,000 gates" => || polite_beside(100_000)};
    }
}

fn address(client: u32) -> SocketAddr {
    (IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + client)), 4711).into()
}

fn request(client: u32) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let peer = ConnectInfo(address(client));
    request.extensions_mut().insert(peer);
    request
}

/// A service that answers at once, with one header, because every answer has some.
#[derive(Clone, Copy, Debug)]
struct Answers;

impl Service<Request<Body>> for Answers {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        drop(black_box(request));
        let mut answer = Response::new(Body::from("hello"));
        let text = header::HeaderValue::from_static("text/plain");
        answer.headers_mut().insert(header::CONTENT_TYPE, text);
        std::future::ready(Ok(answer))
    }
}

/// Sends requests of all clients in turn.
fn requests<S, B>(service: S) -> impl FnMut(u64) + 'static
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone + 'static,
{
    let mut client = 0;
    move |times| {
        block_on(async {
            for _ in 0..times {
                client = (client + 1) % CLIENTS;
                let answer = service.clone().oneshot(request(client)).await;
                drop(black_box(answer));
            }
        });
    }
}

fn peer(extensions: &axum::http::Extensions) -> Option<SocketAddr> {
    let ConnectInfo(peer) = extensions.get()?;
    Some(*peer)
}

/// Makes a layer that limits each client.
macro_rules! by_client {
    ($clients:expr) => {{
        let (clients, address) = ($clients, ClientIp::peer(peer));
        ThrottleLayer::by(move |head| Arc::clone(&clients).key_owned(address.of(head))).refusing()
    }};
}

fn clients() -> Arc<Keyed<IpNet, RateLimiter>> {
    let quota = Quota::per_second(PLENTY).burst(PLENTY);
    Arc::new(Keyed::rate_limiters(quota))
}

/// Calls the service without a layer, and decides about the client by hand.
fn by_hand() -> impl FnMut(u64) + 'static {
    let (clients, mut client) = (clients(), 0);
    move |times| {
        block_on(async {
            for _ in 0..times {
                client = (client + 1) % CLIENTS;
                let network = IpNet::from(address(client).ip());
                let charge = black_box(&clients).key(&network).try_acquire();
                assert!(black_box(charge).is_ok(), "the quota is never exhausted");
                let answer = Answers.oneshot(request(client)).await;
                drop(black_box(answer));
            }
        });
    }
}

/// Limits the rate of each client.
fn by_client() -> impl FnMut(u64) + 'static {
    requests(by_client!(clients()).layer(Answers))
}

/// Does the same, with fields that report the limits.
fn by_client_with(fields: RateLimitHeaders) -> impl FnMut(u64) + 'static {
    requests(by_client!(clients()).headers(fields).layer(Answers))
}

/// Makes tower_governor's layer, by the address of the peer.
macro_rules! governor {
    ($($setting:tt)*) => {{
        let config = GovernorConfigBuilder::default()$($setting)*.finish();
        GovernorLayer::new(config.expect("a quota"))
    }};
}

fn governor() -> impl FnMut(u64) + 'static {
    requests(governor!(.per_nanosecond(1).burst_size(PLENTY as u32)).layer(Answers))
}

/// Does the same, with fields that report the limits.
fn governor_with_fields() -> impl FnMut(u64) + 'static {
    let layer = governor!(.per_nanosecond(1).burst_size(PLENTY as u32).use_headers());
    requests(layer.layer(Answers))
}

/// Sends requests of clients that have used up their quota, one an hour.
fn rejected<S, B>(service: S) -> impl FnMut(u64) + 'static
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone + 'static,
{
    let mut requests = requests(service);
    requests(CLIENTS.into());
    requests
}

/// Rejects a client.
fn rejected_by_client() -> impl FnMut(u64) + 'static {
    let clients = Arc::new(Keyed::rate_limiters(Quota::per_hour(1)));
    rejected(by_client!(clients).layer(Answers))
}

/// Does the same with tower_governor.
fn rejected_by_governor() -> impl FnMut(u64) + 'static {
    rejected(governor!(.per_second(3600).burst_size(1)).layer(Answers))
}

/// Refuses every request for an hour.
fn overloaded(request: Request<Body>) -> Ready<Result<Response<Body>, Infallible>> {
    drop(black_box(request));
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let hour = header::HeaderValue::from_static("3600");
    answer.headers_mut().insert(header::RETRY_AFTER, hour);
    std::future::ready(Ok(answer))
}

/// Sends a request to each of these origins in turn.
fn requests_to<S>(service: S, origins: Range<usize>) -> impl FnMut(u64) + 'static
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + 'static,
{
    let uris: Vec<Uri> = origins
        .map(|n| format!("https://host-{n}.example.com/").parse())
        .collect::<Result<_, _>>()
        .expect("URIs");
    let mut next = 0;
    move |times| {
        block_on(async {
            for _ in 0..times {
                let mut request = Request::new(Body::empty());
                *request.uri_mut() = uris[next].clone();
                next = (next + 1) % uris.len();
                drop(black_box(service.clone().oneshot(request).await));
            }
        });
    }
}

/// Blocks gates for exactly an hour, so that the oldest is the one that opens first.
fn patient() -> RetryAfterLayer<Body> {
    let hour = Duration::from_secs(3600);
    RetryAfterLayer::new()
        .retries(0)
        .max_wait(hour)
        .jitter_percent(0)
}

/// Measures a refusal by an origin without a gate, where the table is full with `gates` gates. Half of the
/// origins have one, and each asks again after its gate was evicted.
fn refused_by_new_origins(gates: usize) -> impl FnMut(u64) + 'static {
    let layer = patient().max_origins(gates);
    let mut requests = requests_to(layer.layer(service_fn(overloaded)), 0..2 * gates);
    requests(gates as u64);
    requests
}

/// Does the same without a layer.
fn refused_without_a_layer() -> impl FnMut(u64) + 'static {
    requests_to(service_fn(overloaded), 0..2048)
}

/// Sends a request to an origin that has asked for no pause, while `gates` others have gates.
fn polite_beside(gates: usize) -> impl FnMut(u64) + 'static {
    let layer = patient().max_origins(gates.max(1));
    requests_to(layer.layer(service_fn(overloaded)), 0..gates)(gates as u64);
    requests_to(layer.layer(Answers), gates..gates + 1)
}
