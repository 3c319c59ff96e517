//! A request through a layer that limits each client, around a service that answers at once.
//!
//! As axum does, each request has the address of its peer in its extensions, and calls a clone of the
//! service. The answer's body is dropped, which gives a permit back. The quota is one that is never
//! exhausted.

use std::convert::Infallible;
use std::future::Ready;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
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

/// A second's requests, and the burst.
const PLENTY: u64 = 1_000_000_000;

/// How many clients there are.
const CLIENTS: u32 = 1000;

fn address(client: u32) -> SocketAddr {
    (IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + client)), 4711).into()
}

fn request(client: u32) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let peer = ConnectInfo(address(client));
    request.extensions_mut().insert(peer);
    request
}

/// Answers at once, with a header as every answer has one.
#[derive(Clone, Copy, Debug)]
pub struct Answers;

impl Service<Request<Body>> for Answers {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        drop(black_box(request));
        let mut answer = Response::new(Body::from("hello"));
        let text = header::HeaderValue::from_static("text/plain");
        answer.headers_mut().insert(header::CONTENT_TYPE, text);
        std::future::ready(Ok(answer))
    }
}

/// Requests of all clients in turn.
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

/// The service without a layer.
pub fn bare() -> impl FnMut(u64) + 'static {
    requests(Answers)
}

fn peer(extensions: &axum::http::Extensions) -> Option<SocketAddr> {
    let ConnectInfo(peer) = extensions.get()?;
    Some(*peer)
}

fn clients() -> Arc<Keyed<IpNet, RateLimiter>> {
    Arc::new(Keyed::rate_limiters(
        Quota::per_second(PLENTY).burst(PLENTY),
    ))
}

/// The service without a layer, and a decision about the client by hand.
pub fn by_hand() -> impl FnMut(u64) + 'static {
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

/// A rate for each client.
pub fn by_client() -> impl FnMut(u64) + 'static {
    let (clients, address) = (clients(), ClientIp::peer(peer));
    let layer =
        ThrottleLayer::by(move |head| Arc::clone(&clients).key_owned(address.of(head))).refusing();
    requests(layer.layer(Answers))
}

/// The same, and fields that tell the limits.
pub fn by_client_with_fields() -> impl FnMut(u64) + 'static {
    let (clients, address) = (clients(), ClientIp::peer(peer));
    let layer = ThrottleLayer::by(move |head| Arc::clone(&clients).key_owned(address.of(head)))
        .refusing()
        .headers(RateLimitHeaders::Draft11);
    requests(layer.layer(Answers))
}

/// The same with the legacy fields.
pub fn by_client_with_legacy_fields() -> impl FnMut(u64) + 'static {
    let (clients, address) = (clients(), ClientIp::peer(peer));
    let layer = ThrottleLayer::by(move |head| Arc::clone(&clients).key_owned(address.of(head)))
        .refusing()
        .headers(RateLimitHeaders::Legacy);
    requests(layer.layer(Answers))
}

/// tower_governor, by the address of the peer.
pub fn governor() -> impl FnMut(u64) + 'static {
    let config = GovernorConfigBuilder::default()
        .per_nanosecond(1)
        .burst_size(PLENTY as u32)
        .finish()
        .expect("a quota");
    requests(GovernorLayer::new(config).layer(Answers))
}

/// The same, and fields that tell the limits.
pub fn governor_with_fields() -> impl FnMut(u64) + 'static {
    let config = GovernorConfigBuilder::default()
        .per_nanosecond(1)
        .burst_size(PLENTY as u32)
        .use_headers()
        .finish()
        .expect("a quota");
    requests(GovernorLayer::new(config).layer(Answers))
}

/// Requests of clients that have used up their quota, one an hour.
fn rejected<S, B>(service: S) -> impl FnMut(u64) + 'static
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone + 'static,
{
    let mut requests = requests(service);
    requests(CLIENTS.into());
    requests
}

/// A rejection of a client.
pub fn rejected_by_client() -> impl FnMut(u64) + 'static {
    let clients = Arc::new(Keyed::rate_limiters(Quota::per_hour(1)));
    let address = ClientIp::peer(peer);
    let layer =
        ThrottleLayer::by(move |head| Arc::clone(&clients).key_owned(address.of(head))).refusing();
    rejected(layer.layer(Answers))
}

/// The same by tower_governor.
pub fn rejected_by_governor() -> impl FnMut(u64) + 'static {
    let config = GovernorConfigBuilder::default()
        .per_second(3600)
        .burst_size(1)
        .finish()
        .expect("a quota");
    rejected(GovernorLayer::new(config).layer(Answers))
}

/// One concurrency limit for all clients.
pub fn slots() -> impl FnMut(u64) + 'static {
    let layer = ThrottleLayer::new(Arc::new(Semaphore::new(8)));
    requests(layer.layer(Answers))
}

/// tower's.
pub fn tower_slots() -> impl FnMut(u64) + 'static {
    requests(ConcurrencyLimitLayer::new(8).layer(Answers))
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

/// A request to each of these origins in turn.
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

/// A refusal by an origin that has no gate, where the table is full with so many. Half of the
/// origins have one, and each asks again after its gate was evicted.
pub fn refused_by_new_origins(gates: usize) -> impl FnMut(u64) + 'static {
    let layer = patient().max_origins(gates);
    let mut requests = requests_to(layer.layer(service_fn(overloaded)), 0..2 * gates);
    requests(gates as u64);
    requests
}

/// The same without a layer.
pub fn refused_without_a_layer() -> impl FnMut(u64) + 'static {
    requests_to(service_fn(overloaded), 0..2048)
}

/// A request to an origin that has asked for nothing, while so many others have gates.
pub fn polite_beside(gates: usize) -> impl FnMut(u64) + 'static {
    let layer = patient().max_origins(gates.max(1));
    requests_to(layer.layer(service_fn(overloaded)), 0..gates)(gates as u64);
    requests_to(layer.layer(Answers), gates..gates + 1)
}
