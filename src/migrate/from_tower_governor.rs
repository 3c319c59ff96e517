//! From tower_governor (0.8.0) to `ThrottleLayer`, of the crate `tollgate-tower`, and [`Keyed`](crate::Keyed).
//!
//! | tower_governor | here |
//! |---|---|
//! | `GovernorLayer::new(config)` | `ThrottleLayer::by(closure).refusing()`: the closure returns the throttle of a request |
//! | `GovernorConfigBuilder`: `finish` | [`Keyed::rate_limiters(quota)`](crate::Keyed::rate_limiters) in an `Arc` |
//! | `period(d)`, `per_second(n)`, `per_millisecond(n)`, `per_nanosecond(n)` | [`Quota::new(1, d)`](crate::Quota::new): the numbers are intervals, see below |
//! | `burst_size(n)` | [`.burst(n)`](crate::Quota::burst) of the quota |
//! | `const_default`, `const_period`, `const_per_second`, `const_per_millisecond`, `const_per_nanosecond`, `const_burst_size` | all of these are `const` |
//! | `GovernorConfig::default()`, `DEFAULT_PERIOD` and `DEFAULT_BURST_SIZE`; `secure()` | `Quota::new(1, Duration::from_millis(500)).burst(8)`; `Quota::new(1, Duration::from_secs(4)).burst(2)` |
//! | `methods(list)` | `None` from the closure, for all other methods |
//! | `key_extractor(e)`, `KeyExtractor`: `extract`, `name`, `key_name` | the closure, which may use the head of a request |
//! | `PeerIpKeyExtractor` | `ClientIp::peer(..)` |
//! | `SmartIpKeyExtractor` | `ClientIp::peer(..)` with `.behind(n)` or `.trusting(networks)`, and `.header(..)` |
//! | `GlobalKeyExtractor` | `ThrottleLayer::new(Arc<RateLimiter>).refusing()` |
//! | `use_headers()` | `.headers(RateLimitHeaders::Legacy)`, or the fields of the IETF's draft |
//! | `error_handler(f)`, `GovernorError::into_response` | `.answer(Answer::ProblemJson)`, `.status(..)`; or a layer outside, which finds the [`AcquireError`](crate::AcquireError) in the extensions of a rejection |
//! | `GovernorError::TooManyRequests`, `UnableToExtractKey`, `Other` | the kind [`RateLimited`](crate::ErrorKind::RateLimited); – for the others, because the closure returns no errors |
//! | `Response::from(error)` of tonic | `.answer(Answer::Grpc)` |
//! | `GovernorConfig`: `limiter`; `SharedRateLimiter` | your own `Arc<Keyed<..>>` |
//! | `limiter().retain_recent()` in a thread | not needed |
//! | `Governor::new(service, &config)`; its fields `key_extractor`, `limiter`, `methods`, `inner`; `ResponseFuture` | `layer.layer(service)`; –; `tollgate_tower::ResponseFuture` |
//!
//! # What is different
//!
//! - **`per_second(n)` of its builder is an interval of `n` seconds**: `per_second(2).burst_size(5)`
//!   gives one request in two seconds. That is `Quota::new(1, Duration::from_secs(2)).burst(5)` here;
//!   [`Quota::per_second(2)`](crate::Quota::per_second) means two in a second.
//! - **Clients cannot choose their address.** `SmartIpKeyExtractor` believes the first address in
//!   `X-Forwarded-For`, which the client can write. `ClientIp` counts trusted proxies from the right, and
//!   counts an IPv6 client by its network of 64 bits.
//! - **A request without an address** gets a 500 there. Here all of them share one key, so a server without
//!   `into_make_service_with_connect_info` silently has one limit for all clients.
//! - **Memory is bounded**, by [`max_keys`](crate::Keyed::max_keys).
//! - **`Retry-After` is rounded up**, at least 1; there it is rounded down, and may be 0.
//! - **Fields**: each refusal there has `x-ratelimit-after`, a copy of `Retry-After`, which nothing here
//!   sends; nor is there `x-ratelimit-whitelisted`, which its `use_headers` adds for methods without a limit.
//! - **Both reject without a wait.** Here `ThrottleLayer::by` waits in order, and `.timeout(d)` bounds
//!   it; several limits in one layer refund each other.
//!
//! # Before and after
//!
//! ```
//! use std::net::SocketAddr;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use axum::Router;
//! use axum::body::Body;
//! use axum::extract::ConnectInfo;
//! use axum::http::{Extensions, Request};
//! use tollgate_tower::{ClientIp, RateLimitHeaders, ThrottleLayer};
//! use tollgate::{Keyed, Quota};
//! # use tower::{Service, ServiceExt};
//!
//! fn peer(extensions: &Extensions) -> Option<SocketAddr> {
//!     Some(extensions.get::<ConnectInfo<SocketAddr>>()?.0)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // GovernorConfigBuilder::default().per_second(2).burst_size(5).use_headers().finish()
//! let quota = Quota::new(1, Duration::from_secs(2)).burst(5);
//! let clients = Arc::new(Keyed::rate_limiters(quota));
//! let address = ClientIp::peer(peer);
//! let layer = ThrottleLayer::by(move |head| {
//!     Arc::clone(&clients).key_owned(address.of(head))
//! }).refusing();
//! let app: Router = Router::new().layer(layer.headers(RateLimitHeaders::Legacy));
//! let mut server = app.into_make_service_with_connect_info::<SocketAddr>(); // For `axum::serve`.
//! # let mut connect = async |address| server.call(SocketAddr::new(address, 1234)).await;
//! # let (ann, ben) = (connect([192, 0, 2, 1].into()).await?, connect([192, 0, 2, 2].into()).await?);
//! # for expected in [404, 404, 404, 404, 404, 429] {
//! #     let answer = ann.clone().oneshot(Request::new(Body::empty())).await?;
//! #     assert_eq!(answer.status(), expected);
//! # }
//! # assert_eq!(ben.oneshot(Request::new(Body::empty())).await?.status(), 404);
//! # Ok(())
//! # }
//! ```
