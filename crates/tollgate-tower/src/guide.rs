//! Limit an HTTP service: by client and in total, with answers that tell clients their limits.
//!
//! A [`ThrottleLayer`](crate::ThrottleLayer) puts a router of axum, or any service of hyper or tonic,
//! behind limits that a closure chooses for each request.
//!
//! ```toml
//! [dependencies]
//! axum = "0.8"
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! tollgate-tower = { path = "../tollgate/crates/tollgate-tower" }
//! tower = { version = "0.5", features = ["util"] } # `oneshot`, for tests
//! ```
//!
//! ```
//! use std::net::SocketAddr;
//! use std::sync::Arc;
//!
//! use axum::Router;
//! use axum::body::Body;
//! use axum::extract::ConnectInfo;
//! use axum::http::Request;
//! use axum::routing::get;
//! use tollgate_tower::{Answer, ClientIp, Policy, RateLimitHeaders, ThrottleLayer};
//! use tollgate::{Clock, Keyed, Quota, RateLimiter, Semaphore, all};
//! use tower::ServiceExt;
//!
//! fn app(clock: Clock) -> Router {
//!     // One request a second for each client, and five at once after a pause.
//!     let each = RateLimiter::new(Quota::per_second(1).burst(5)).clock(clock.clone());
//!     let clients = Keyed::new(each);
//!     let total = RateLimiter::new(Quota::per_second(1000).burst(100)).clock(clock);
//!     let (clients, total) = (Arc::new(clients), Arc::new(total));
//!     // 64 requests at once, at most four of one client.
//!     let (client_slots, slots) = (Arc::new(Keyed::semaphores(4)), Arc::new(Semaphore::new(64)));
//!     let address = ClientIp::peer(|head| Some(head.get::<ConnectInfo<SocketAddr>>()?.0));
//!     let limit = ThrottleLayer::by(move |head| {
//!         let (client, cost) = (address.of(head), if head.uri.path() == "/report" { 3 } else { 1 });
//!         let rate = Arc::clone(&clients).key_owned(client).cost(cost);
//!         let few = Arc::clone(&client_slots).key_owned(client);
//!         all((rate, few, Arc::clone(&total), Arc::clone(&slots)))
//!     }).refusing()
//!     .policies([
//!         Policy::client("client"),
//!         Policy::client("client-slots"),
//!         Policy::server("total"),
//!         Policy::server("slots"),
//!     ])
//!     .headers(RateLimitHeaders::Draft11)
//!     .answer(Answer::ProblemJson);
//!     Router::new().route("/report", get(async || "a long report\n")).layer(limit)
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // A test, on a clock that stands still.
//!     let test = app(Clock::manual().into());
//!     let peer = ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 1234)));
//!     let request = || Request::get("/report").extension(peer).body(Body::empty());
//!     assert_eq!(test.clone().oneshot(request()?).await?.status(), 200);
//!     let refused = test.clone().oneshot(request()?).await?;
//!     assert_eq!(refused.status(), 429);
//!     assert_eq!(refused.headers()["retry-after"], "1");
//!
//!     // Without `ConnectInfo` all clients would share one address.
//!     let app = app(Clock::default()).into_make_service_with_connect_info::<SocketAddr>();
//!     # return Ok(drop(app));
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//!     Ok(axum::serve(listener, app).await?)
//! }
//! ```
//!
//! # Choices
//!
//! - *Waiting*: [`by`](crate::ThrottleLayer::by) with a
//!   [`timeout`](crate::ThrottleLayer::timeout). The order above is for `refusing`: requests that
//!   wait for slots after a rate leave together, so with `by` put both slots [first](tollgate::all). One limit
//!   for all requests: [`new`](crate::ThrottleLayer::new).
//! - *Behind a proxy*: [`behind(1)`](crate::ClientIp::behind) takes the last element of
//!   `X-Forwarded-For` ([other headers, networks of proxies](crate::ClientIp)); without the header,
//!   all share the proxy's limit. Close the port to everyone but the proxy.
//! - *By user*: take the key from a header or from an extension of an outer layer. `None` is a request
//!   without a limit; limits of different types are `Option`s in `all`.
//! - *Only failures count*, such as wrong passwords: [`refund_if`](crate::ThrottleLayer::refund_if).
//! - *Change it live*: [`set_quota`](tollgate::RateLimiter::set_quota) of an `Arc` in the router's state, as in
//!   `axum_full`; `tonic_limit` is for gRPC. *A backend that gets slow*: an [adaptive
//!   limit](tollgate::guide::find_the_right_limit), with [`overloaded_if`](crate::ThrottleLayer::overloaded_if).
//!
//! # Traps
//!
//! - An unchecked API key must not be a key of a limit: a client who makes keys up gets a limit for each.
//! - Routes that are added after the layer are not behind it. A permit is held until the body has been sent,
//!   so without `client_slots` a client that reads slowly can take all slots.
//! - A refusal by slots has no `Retry-After`: nobody knows when one is free.
//! - A cost above the burst is answered with 413. In the fields, `q` is the count without the burst, and `r` (what is
//!   left) is never more than `q`.
//! - Each map has [100,000 keys](tollgate::Keyed::max_keys) at most; a full one answers with 503. A client with
//!   IPv6 is a [whole network](crate::ClientIp::prefixes).
