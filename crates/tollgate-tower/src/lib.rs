//! Limits services and clients over HTTP. A [layer](ThrottleLayer) puts a service, for example a router of
//! axum, behind any [`Throttle`](tollgate::Throttle). [`ClientIp`] identifies clients, to limit each of
//! them. [Another layer](PausesLayer), for clients, waits as long as servers ask for. [A
//! reader](server_limits) reads the limits that servers report. [The guide](guide) has a program.
//!
//! - *The throttle* is the same for all requests, or chosen [by request](ThrottleLayer::by): a closure
//!   returns it from the [`RequestParts`]. It is a key, a cost, several limits by [`all`](tollgate::all), an
//!   `Option` for routes without a limit, or any other throttle.
//! - *Waiting* happens in the response future, in the order of the throttle. When a client
//!   disconnects, servers drop that future, which removes the request from the queue.
//! - *A rejection* is a response, and not an error; see [below](#refusals). For services that do not
//!   answer over HTTP it is [an error](ThrottleLayer::errors).
//! - *Sharing*: the layer, the services that it makes, and all clones of them share the throttle. A
//!   ready service holds no permit: a request enters the throttle when its future is polled, or, if
//!   the layer rejects at once, when the service is called.
//! - *The permit is held to the end of the body*: until its last frame was read, or it failed, or
//!   it was dropped. A response without a body returns the permit at once, even when a connection
//!   is upgraded. The work of the service is dropped before the permit in every case, including a
//!   panic. The charge of a rate limiter stays once the request was admitted, even if the client
//!   disconnects, unless [the answer refunds it](ThrottleLayer::refund_if).
//! - The inner service is made ready first, and stays ready while the request waits. A service that
//!   acquires a resource when it becomes ready, like tower's concurrency limit, holds it meanwhile.
//!
//! # Refusals
//!
//! | [`ErrorKind`](tollgate::ErrorKind) | response | |
//! |---|---|---|
//! | `RateLimited`, `QueueFull`, `NoPermits`, `TimedOut`, `RuntimeEnded` | 429 Too Many Requests, or [another status](ThrottleLayer::status) | a later request may be admitted |
//! | `ExceedsCapacity` | 413 Content Too Large | the request costs more than the limit gives now |
//! | the same, by a [policy of the server](Policy::server) | 503 Service Unavailable | all clients together make too many requests |
//! | `Closed`, `Cancelled`, `TooManyKeys`, `Store`, and future kinds | 503 Service Unavailable | the client is not the cause |
//!
//! A request whose [cost](tollgate::Throttle) is above the capacity is too large, whatever the unit of the
//! cost is. So its status is 413, and not 422: its content is understood and correct. It has no `Retry-After`,
//! because only a change of the limit, for example with `set_permits` or `set_quota`, would admit it.
//!
//! If the throttle knows when to [try again](tollgate::AcquireError::retry_after), the response has a
//! `Retry-After` in whole seconds, rounded up, at least 1. A rate limiter knows the time when it
//! rejects a request at once, including a request whose wait would exceed the
//! [timeout](ThrottleLayer::timeout), and when its queue is full. A concurrency throttle never
//! knows it. With [fields](ThrottleLayer::headers), `Retry-After` is not before the time of any
//! exhausted limit in them. Caches must not store a rejection. Its body is empty or
//! [a JSON problem](RejectionFormat::ProblemJson); for gRPC it consists of [trailers](RejectionFormat::Grpc).
//!
//! A handler that enforces a limit by itself gets the same values from [`status`] and [`retry_after`].
//!
//! The extensions of a rejection, and of no other response, contain the
//! [`AcquireError`](tollgate::AcquireError), so that an outer layer can count rejections or respond
//! differently.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::Router;
//! use axum::body::{Body, to_bytes};
//! use axum::http::{Request, StatusCode};
//! use axum::routing::get;
//! use tollgate::Semaphore;
//! use tollgate_tower::ThrottleLayer;
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // One request at a time, and no waiters.
//! let slots = Arc::new(Semaphore::new(1).max_waiters(0));
//! let app = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(ThrottleLayer::new(Arc::clone(&slots)));
//! let get = || app.clone().oneshot(Request::new(Body::empty()));
//!
//! // The body is not read yet, so it holds the slot.
//! let first = get().await?;
//! assert_eq!(first.status(), StatusCode::OK);
//! assert_eq!(get().await?.status(), StatusCode::TOO_MANY_REQUESTS);
//!
//! assert_eq!(to_bytes(first.into_body(), usize::MAX).await?, "hello");
//! assert_eq!(slots.available_permits(), 1);
//! assert_eq!(get().await?.status(), StatusCode::OK);
//! # Ok(())
//! # }
//! ```
//!
//! A custom response to a rejection:
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::body::{Body, to_bytes};
//! use axum::http::Request;
//! use axum::response::{IntoResponse, Response};
//! use axum::{Router, middleware};
//! use tollgate_tower::ThrottleLayer;
//! use tollgate::{AcquireError, Semaphore};
//! use tower::ServiceExt;
//!
//! async fn explain(answer: Response) -> Response {
//!     match answer.extensions().get::<AcquireError>() {
//!         Some(error) => (answer.status(), error.to_string()).into_response(),
//!         None => answer,
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let closed = Arc::new(Semaphore::new(1));
//! closed.close();
//! let app: Router = Router::new()
//!     .layer(ThrottleLayer::new(closed))
//!     .layer(middleware::map_response(explain));
//!
//! let refused = app.oneshot(Request::new(Body::empty())).await?;
//! assert_eq!(refused.status(), 503);
//! assert_eq!(to_bytes(refused.into_body(), usize::MAX).await?, "the throttle is closed");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// Tests the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod body;
mod extractor;
pub mod guide;
mod layer;
mod pauses;
mod respond;
mod service;

#[doc(no_inline)]
pub use tollgate_http::{
    ApiLimit, ApiLimits, Charged, ClientIp, ClientIpHeader, IpNet, Paused, Pauses, Policy,
    RateLimitHeaders, RejectionFormat, RequestParts, Usage, feedback, retry_after, server_limits,
    status,
};

pub use self::body::ThrottledBody;
pub use self::extractor::{ByParts, ByRequest, ThrottleExtractor};
pub use self::layer::ThrottleLayer;
pub use self::pauses::{PausesFuture, PausesLayer, PausesService};
pub use self::respond::{Classify, Errors, Respond, Responses};
pub use self::service::{ResponseFuture, ThrottleService};
