//! A request through a layer that limits each client, around a service that answers at once.
//!
//! As in axum, each request has the address of its peer in its extensions, and calls a clone of the
//! service. The response body is dropped, which gives a permit back. The quota is never exhausted.

use std::convert::Infallible;
use std::future::Ready;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response, StatusCode, Uri, header};
use tollgate::{Keyed, Quota, RateLimiter, Semaphore};
use tollgate_tower::{ClientIp, IpNet, Pauses, PausesLayer, RateLimitHeaders, ThrottleLayer};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

use crate::harness::{Row, alone, awaited};
use crate::rows;

/// The requests per second, and the burst.
const PLENTY: u64 = 1_000_000_000;

/// The number of clients.
const CLIENTS: u32 = 1000;

/// Compares a request through the layer over HTTP with tower_governor and tower's own limit.
///
/// Every figure includes creating the request and the response; that of `no layer` includes nothing else.
pub fn rows() -> Vec<Row> {
    rows! {
        alone "http: a request by client"
            {"layer by closure" => by_client, "tower_governor": 0.70 => governor,
             "Keyed by hand" => by_hand, "no layer" => || requests(service_fn(answers))};
        alone "http: a request by client, with fields"
            {"layer, Draft11" => || by_client_with(RateLimitHeaders::Draft11),
             "tower_governor, x-ratelimit": 0.70 => governor_with_fields,
             "layer, Legacy" => || by_client_with(RateLimitHeaders::Legacy),
             "layer without fields" => by_client};
        alone "http: a rejected request"
            {"layer by closure" => rejected_by_client, "tower_governor": 0.70 => rejected_by_governor};
        alone "http: a request with a slot"
            {"layer" => || requests(ThrottleLayer::new(Arc::new(Semaphore::new(8))).layer(service_fn(answers))),
             "tower ConcurrencyLimit" => || requests(ConcurrencyLimitLayer::new(8).layer(service_fn(answers))),
             "no layer" => || requests(service_fn(answers))};
    }
}

/// Requests of a client that waits as servers ask it to, by the number of paused origins.
pub fn origins() -> Vec<Row> {
    // The limit of a refusal is 5 µs, and without a layer it takes 0.15 µs.
    rows! {
        alone "http: a refusal by a new origin, 100,000 paused"
            {"full table" => || refused_by_new_origins(100_000),
             "no layer": 30.0 => refused_without_a_layer,
             "full table of 64" => || refused_by_new_origins(64)};
        alone "http: a request to an origin without a pause"
            {"nothing paused" => || polite_beside(0), "beside 1,024 paused" => || polite_beside(1024),
             "beside 100,000 paused" => || polite_beside(99_999)};
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

type Answer = Ready<Result<Response<Body>, Infallible>>;

/// Answers at once, with a header like every response.
fn answers(request: Request<Body>) -> Answer {
    drop(black_box(request));
    let mut answer = Response::new(Body::from("hello"));
    let text = header::HeaderValue::from_static("text/plain");
    answer.headers_mut().insert(header::CONTENT_TYPE, text);
    std::future::ready(Ok(answer))
}

/// Sends requests of all clients in turn.
fn requests<S, B>(service: S) -> impl FnMut(u64) + 'static
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone + 'static,
{
    let mut client = 0;
    awaited(async move || {
        client = (client + 1) % CLIENTS;
        let answer = service.clone().oneshot(request(client)).await;
        drop(black_box(answer));
    })
}

fn peer(extensions: &axum::http::Extensions) -> Option<SocketAddr> {
    let ConnectInfo(peer) = extensions.get()?;
    Some(*peer)
}

/// A layer that limits each client.
macro_rules! by_client {
    ($clients:expr) => {{
        let (clients, address) = ($clients, ClientIp::peer(peer));
        ThrottleLayer::by(move |parts| Arc::clone(&clients).key_owned(address.of(parts))).refusing()
    }};
}

fn clients() -> Arc<Keyed<IpNet, RateLimiter>> {
    let quota = Quota::per_second(PLENTY).burst(PLENTY);
    Arc::new(Keyed::rate_limiters(quota))
}

/// Calls the service without a layer, after a manual decision about the client.
fn by_hand() -> impl FnMut(u64) + 'static {
    let (clients, mut client) = (clients(), 0);
    awaited(async move || {
        client = (client + 1) % CLIENTS;
        let network = IpNet::from(address(client).ip());
        let charge = black_box(&clients).key(&network).try_acquire();
        assert!(black_box(charge).is_ok(), "the quota is never exhausted");
        let answer = service_fn(answers).oneshot(request(client)).await;
        drop(black_box(answer));
    })
}

/// A rate for each client.
fn by_client() -> impl FnMut(u64) + 'static {
    requests(by_client!(clients()).layer(service_fn(answers)))
}

/// The same, with rate-limit fields in the response.
fn by_client_with(fields: RateLimitHeaders) -> impl FnMut(u64) + 'static {
    requests(
        by_client!(clients())
            .headers(fields)
            .layer(service_fn(answers)),
    )
}

/// tower_governor, by the address of the peer.
macro_rules! governor {
    ($($setting:tt)*) => {{
        let config = GovernorConfigBuilder::default()$($setting)*.finish();
        GovernorLayer::new(config.expect("a quota"))
    }};
}

fn governor() -> impl FnMut(u64) + 'static {
    requests(governor!(.per_nanosecond(1).burst_size(PLENTY as u32)).layer(service_fn(answers)))
}

/// The same, with rate-limit fields in the response.
fn governor_with_fields() -> impl FnMut(u64) + 'static {
    let layer = governor!(.per_nanosecond(1).burst_size(PLENTY as u32).use_headers());
    requests(layer.layer(service_fn(answers)))
}

/// Sends requests of clients that have used up their quota, one an hour.
fn rejected(mut requests: impl FnMut(u64) + 'static) -> impl FnMut(u64) + 'static {
    requests(CLIENTS.into());
    requests
}

/// A rejection of a client.
fn rejected_by_client() -> impl FnMut(u64) + 'static {
    let clients = Arc::new(Keyed::rate_limiters(Quota::per_hour(1)));
    rejected(requests(by_client!(clients).layer(service_fn(answers))))
}

/// The same for tower_governor.
fn rejected_by_governor() -> impl FnMut(u64) + 'static {
    rejected(requests(
        governor!(.per_second(3600).burst_size(1)).layer(service_fn(answers)),
    ))
}

/// Refuses every request for an hour.
fn overloaded(request: Request<Body>) -> Answer {
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
    S: Service<Request<Body>> + Clone + 'static,
{
    let uri = |n| {
        format!("https://host-{n}.example.com/")
            .parse()
            .expect("a URI")
    };
    let uris: Vec<Uri> = origins.map(uri).collect();
    let mut next = 0;
    awaited(async move || {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = uris[next].clone();
        next = (next + 1) % uris.len();
        drop(black_box(service.clone().oneshot(request).await));
    })
}

/// Pauses this many origins for an hour, and returns the layer, which repeats nothing. The table is then full.
fn pausing(origins: usize) -> PausesLayer<Body> {
    let pauses = Pauses::new().retries(0).max_origins(origins.max(1));
    let layer = PausesLayer::new(pauses);
    requests_to(layer.layer(service_fn(overloaded)), 0..origins)(origins as u64);
    layer
}

/// Measures a refusal by an origin for whose pause there is no room, beside this many paused ones.
fn refused_by_new_origins(origins: usize) -> impl FnMut(u64) + 'static {
    let client = pausing(origins).layer(service_fn(overloaded));
    requests_to(client, origins..2 * origins)
}

/// The same without a layer.
fn refused_without_a_layer() -> impl FnMut(u64) + 'static {
    requests_to(service_fn(overloaded), 0..2048)
}

/// Measures a request to an origin that has asked for no delay, while this many others are paused.
fn polite_beside(origins: usize) -> impl FnMut(u64) + 'static {
    let client = pausing(origins).layer(service_fn(answers));
    requests_to(client, origins..origins + 1)
}
