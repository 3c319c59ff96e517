//! Limit an HTTP service, step by step.
//!
//! The steps build on each other and end with a service that limits each client and all of them
//! together, tells clients their limits, and counts logins only when they fail. They use axum; the
//! layer is the same on a service of hyper or tonic. [`tower`](crate::tower) is the reference.
//!
//! ```toml
//! [dependencies]
//! axum = "0.8"
//! tokio = { version = "1", features = ["full"] }
//! tollgate = { version = "0.1", features = ["tower"] }
//!
//! [dev-dependencies]
//! tower = { version = "0.5", features = ["util"] } # For `oneshot` in tests.
//! ```
//!
//! # 1. A rate for each client
//!
//! A [`Keyed`](crate::Keyed) has a limit for each key, here for each address, and a
//! [`ThrottleLayer`](crate::tower::ThrottleLayer) asks it. This program is complete:
//!
//! ```no_run
//! use std::net::SocketAddr;
//! use std::sync::Arc;
//!
//! use axum::Router;
//! use axum::extract::ConnectInfo;
//! use axum::http::Extensions;
//! use axum::routing::get;
//! use tollgate::tower::{ClientIp, ThrottleLayer};
//! use tollgate::{Keyed, Quota};
//!
//! fn peer(extensions: &Extensions) -> Option<SocketAddr> {
//!     let ConnectInfo(peer) = extensions.get::<ConnectInfo<SocketAddr>>()?;
//!     Some(*peer)
//! }
//!
//! #[tokio::main]
//! async fn main() -> std::io::Result<()> {
//!     // One request a second for each address, and ten at once after a pause.
//!     let clients = Arc::new(Keyed::rate_limiters(Quota::per_second(1).burst(10)));
//!     let address = ClientIp::peer(peer);
//!     let limit = ThrottleLayer::refusing_by(move |head| {
//!         Arc::clone(&clients).key_owned(address.of(head))
//!     });
//!
//!     let app = Router::new().route("/", get(async || "hello\n")).layer(limit);
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//!     // Without `ConnectInfo` all clients would share one address.
//!     let app = app.into_make_service_with_connect_info::<SocketAddr>();
//!     axum::serve(listener, app).await
//! }
//! ```
//!
//! `for i in $(seq 12); do curl -si localhost:3000 | head -1; done` shows ten times 200 and twice
//! 429. [`refusing_by`](crate::tower::ThrottleLayer::refusing_by) rejects at once; with
//! [`by`](crate::tower::ThrottleLayer::by) and a
//! [`timeout`](crate::tower::ThrottleLayer::timeout), a request waits for its turn.
//!
//! - *Memory is bounded*: [`max_keys`](crate::Keyed::max_keys) is 100,000 unless it is set. A new
//!   client takes the place of one that has its whole burst again. If it finds none among the few
//!   that it looks at, it is rejected with 503, or, with [`WhenFull::Evict`](crate::WhenFull::Evict),
//!   the debt of one of them is forgiven. So allow for twice the clients that you expect in the time
//!   that a burst takes to come back.
//! - *An IPv6 client has a whole network*: a key is the `/64`, and a single IPv4 address; see
//!   [`prefixes`](crate::tower::ClientIp::prefixes).
//!
//! # 2. Behind a proxy
//!
//! The peer is then the proxy, and the client is in a header to which anybody can add. Say [how many
//! proxies](crate::tower::ClientIp::behind) there are, or [what their
//! networks](crate::tower::ClientIp::trusting) are; only what they wrote is believed.
//!
//! ```
//! # use std::net::SocketAddr;
//! # use axum::extract::ConnectInfo;
//! use axum::http::Request;
//! use tollgate::tower::{ClientIp, ClientIpHeader};
//! # fn peer(extensions: &axum::http::Extensions) -> Option<SocketAddr> {
//! #     let ConnectInfo(peer) = extensions.get::<ConnectInfo<SocketAddr>>()?;
//! #     Some(*peer)
//! # }
//!
//! // In step 1, in place of `ClientIp::peer(peer)`:
//! let address = ClientIp::peer(peer).behind(1).header(ClientIpHeader::XForwardedFor);
//!
//! // The proxy added the second address, and the client made up the first.
//! let request = Request::get("/").header("x-forwarded-for", "6.6.6.6, 1.2.3.4").body(())?;
//! assert_eq!(address.of(&request).to_string(), "1.2.3.4/32");
//! # Ok::<_, axum::http::Error>(())
//! ```
//!
//! `curl -i -H 'x-forwarded-for: 6.6.6.6, 1.2.3.4' localhost:3000` is then a request of 1.2.3.4.
//!
//! # 3. By user, or not at all
//!
//! The closure sees the [head](crate::tower::Head) of the request, so the key can be the user of an
//! API key, or one that an outer layer put into the extensions. `None` is a request without a limit.
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::Arc;
//!
//! use tollgate::tower::ThrottleLayer;
//! use tollgate::{Keyed, Quota};
//! # use axum::{Router, body::Body, http::Request};
//! # use tower::ServiceExt;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!
//! let users = Arc::new(Keyed::<u64, _>::rate_limiters(Quota::per_minute(1)));
//! // In place of a database.
//! let known = HashMap::from([("4f1c", 1), ("9a02", 2)]);
//! let limit = ThrottleLayer::refusing_by(move |head| {
//!     if head.uri.path() == "/health" {
//!         return None;
//!     }
//!     let key = head.headers.get("x-api-key").and_then(|key| key.to_str().ok());
//!     // All others share the limit of user 0.
//!     let user = key.and_then(|key| known.get(key)).copied().unwrap_or(0);
//!     Some(Arc::clone(&users).key_owned(user))
//! });
//! # let app: Router = Router::new().layer(limit);
//! # for (path, key, expected) in [
//! #     ("/", "4f1c", 404), ("/", "4f1c", 429), ("/", "9a02", 404), ("/health", "4f1c", 404),
//! #     ("/", "made up", 404), ("/", "another", 429),
//! # ] {
//! #     let request = Request::get(path).header("x-api-key", key).body(Body::empty())?;
//! #     assert_eq!(app.clone().oneshot(request).await?.status(), expected);
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! A key that has not been checked must not have a limit of its own: whoever makes keys up would get
//! a limit for each. If routes have limits of different types, combine them as `Option`s:
//! `all((user, is_report.then(|| reports)))`.
//!
//! # 4. Several limits, and what responses say
//!
//! [`all`](crate::all) combines limits, the narrow one first. What a part was charged is given back
//! when a later part rejects the request. Names, in the order of the parts, and fields are for
//! clients:
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::Router;
//! use axum::body::Body;
//! use axum::http::Request;
//! use tower::ServiceExt;
//! use tollgate::tower::{Answer, Policy, RateLimitHeaders, ThrottleLayer};
//! use tollgate::{Keyed, Quota, RateLimiter, Semaphore, all};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let users = Arc::new(Keyed::<u64, _>::rate_limiters(Quota::per_minute(60).burst(60)));
//! let everyone = Arc::new(RateLimiter::new(Quota::per_second(500).burst(50)));
//! let slots = Arc::new(Semaphore::new(64));
//! let limit = ThrottleLayer::refusing_by(move |head| {
//!     let user = 1; // As in step 3.
//!     // A report costs ten requests. The burst must be at least that.
//!     let cost = if head.uri.path().starts_with("/reports") { 10 } else { 1 };
//!     let user = Arc::clone(&users).key_owned(user).cost(cost);
//!     let everyone = Arc::clone(&everyone).cost_owned(cost);
//!     all((user, everyone, Arc::clone(&slots)))
//! })
//! .policies([Policy::client("user"), Policy::server("total"), Policy::server("slots")])
//! .headers(RateLimitHeaders::Draft11)
//! .answer(Answer::ProblemJson);
//!
//! let app: Router = Router::new().layer(limit);
//! let answer = app.oneshot(Request::get("/reports/7").body(Body::empty())?).await?;
//! assert_eq!(
//!     answer.headers()["ratelimit"],
//!     r#""user";r=50;t=10, "total";r=40;t=1, "slots";r=63"#
//! );
//! # Ok(())
//! # }
//! ```
//!
//! A rejection by the user's limit is 429 Too Many Requests, and one by a limit of the server 503
//! Service Unavailable; both have a `Retry-After` if the time is known, and a body that names the
//! policy. A cost above the burst is never admitted: it is always 503.
//!
//! # 5. Count only what fails
//!
//! [`refund_if`](crate::tower::ThrottleLayer::refund_if) sees the head of the answer. Here logins
//! count only when they fail, five in an hour for each address:
//!
//! ```
//! use std::sync::Arc;
//!
//! use tollgate::tower::{ClientIp, ThrottleLayer};
//! use tollgate::{Keyed, Quota};
//! # let address = ClientIp::peer(|_| None);
//!
//! let failures = Arc::new(Keyed::rate_limiters(Quota::per_hour(5).burst(5)));
//! let address = address.clone(); // Of step 1.
//! let logins = ThrottleLayer::refusing_by(move |head| {
//!     Arc::clone(&failures).key_owned(address.of(head))
//! })
//! .refund_if(|answer| answer.status != 401);
//! # let _: axum::Router = axum::Router::new().layer(logins);
//! ```
//!
//! It is put around the login's route only: `.route("/login", post(login).layer(logins))`. A login
//! counts while it runs, so the burst must be above the number of logins that an address makes at
//! once. Give this layer no `headers`: a client that obeys `r=0` would stop all its requests to the
//! service, not only its logins.
//!
//! # 6. Change limits while the service runs
//!
//! The layer and the handlers share limits by their `Arc`s, so they fit into the state of axum:
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::Router;
//! use axum::extract::{Path, State};
//! use axum::http::StatusCode;
//! use axum::routing::{get, put};
//! use tollgate::tower::ThrottleLayer;
//! use tollgate::{Quota, RateLimiter};
//!
//! #[derive(Clone)]
//! struct Limits {
//!     everyone: Arc<RateLimiter>,
//! }
//!
//! /// `PUT /limits/50%2Fs%20burst%2025`; without a burst, it is 1.
//! async fn set(
//!     State(limits): State<Limits>,
//!     Path(quota): Path<String>,
//! ) -> Result<(), (StatusCode, String)> {
//!     let quota = quota.parse::<Quota>();
//!     let quota = quota.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
//!     limits.everyone.set_quota(quota);
//!     Ok(())
//! }
//!
//! /// Who waits, and what is left.
//! async fn show(State(limits): State<Limits>) -> String {
//!     let now = limits.everyone.snapshot();
//!     format!("{} of {} left, {} waiting\n", now.available, now.limit, now.waiting)
//! }
//!
//! let limits = Limits { everyone: Arc::new(RateLimiter::new(Quota::per_second(10))) };
//! let app: Router = Router::new()
//!     .route("/", get(async || "hello"))
//!     .layer(ThrottleLayer::refusing(Arc::clone(&limits.everyone)))
//!     .route("/limits", get(show))
//!     .route("/limits/{quota}", put(set))
//!     .with_state(limits);
//! ```
//!
//! Routes that are added after the layer have no limit.
//!
//! # 7. Test it
//!
//! A limiter on a [manual clock](crate::Clock::manual) makes a test exact, and a router can be
//! called without a connection:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use axum::Router;
//! use axum::body::Body;
//! use axum::http::Request;
//! use tollgate::tower::ThrottleLayer;
//! use tollgate::{Clock, Quota, RateLimiter};
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = Clock::manual();
//! let limiter = RateLimiter::new(Quota::per_minute(1)).clock(&clock);
//! let app: Router = Router::new().layer(ThrottleLayer::refusing(Arc::new(limiter)));
//! let get = || app.clone().oneshot(Request::new(Body::empty()));
//!
//! assert_eq!(get().await?.status(), 404);
//! let refused = get().await?;
//! assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"60".parse()?));
//! clock.advance(Duration::from_secs(60));
//! assert_eq!(get().await?.status(), 404);
//! # Ok(())
//! # }
//! ```
//!
//! # 8. See who waits, and who holds
//!
//! `snapshot()` says how much is in use and how many wait, and `keys()` of a
//! [`Keyed`](crate::Keyed::keys) which clients are limited now. For who holds a slot, make an
//! [`Observer`](crate::observe::Observer) for each request:
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use std::sync::{Arc, Mutex};
//! use std::time::{Duration, Instant};
//!
//! use tollgate::Semaphore;
//! use tollgate::observe::{Observed, Observer, Place};
//! use tollgate::tower::ThrottleLayer;
//!
//! /// The requests that hold a slot: their paths, and since when.
//! type Requests = Arc<Mutex<HashMap<u64, (String, Instant)>>>;
//!
//! #[derive(Clone)]
//! struct Request {
//!     path: String,
//!     all: Requests,
//! }
//!
//! impl Observer for Request {
//!     type Held = u64;
//!
//!     fn admitted(&self, _: Place, _: Option<Duration>) -> u64 {
//!         static NEXT: AtomicU64 = AtomicU64::new(0);
//!         let id = NEXT.fetch_add(1, Ordering::Relaxed);
//!         let request = (self.path.clone(), Instant::now());
//!         self.all.lock().unwrap().insert(id, request);
//!         id
//!     }
//!
//!     fn released(&self, id: u64) {
//!         self.all.lock().unwrap().remove(&id);
//!     }
//!
//!     fn undone(&self, id: u64) {
//!         self.released(id);
//!     }
//! }
//!
//! let (slots, requests) = (Arc::new(Semaphore::new(64)), Requests::default());
//! let limit = ThrottleLayer::by({
//!     let requests = Arc::clone(&requests);
//!     move |head| {
//!         let (path, all) = (head.uri.path().to_owned(), Arc::clone(&requests));
//!         Observed::new(Arc::clone(&slots), Request { path, all })
//!     }
//! });
//! # use axum::{Router, body::Body};
//! # use tower::ServiceExt;
//! # let app: Router = Router::new().route("/slow", axum::routing::get(async || "slow")).layer(limit);
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # let request = axum::http::Request::get("/slow").body(Body::empty())?;
//! # let answer = runtime.block_on(app.oneshot(request))?;
//! # assert_eq!(requests.lock().unwrap().values().next().unwrap().0, "/slow");
//! # drop(answer);
//! # assert!(requests.lock().unwrap().is_empty());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Further
//!
//! - gRPC: [`Answer::Grpc`](crate::tower::Answer::Grpc), and the layer on tonic's server, as the
//!   example `tonic_limit` does.
//! - Several machines: the limits of the crate `tollgate-redis` are throttles too, and go into the
//!   same closure.
//! - Clients that wait as long as such a service asks:
//!   [`RetryAfterLayer`](crate::tower::RetryAfterLayer).
//! - Metrics, tracing, and holders by file and line: [`observe`](crate::observe).
//! - The program `examples/axum_full` of the repository has most of this in one service.
