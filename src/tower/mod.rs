//! A [layer](ThrottleLayer) that puts a service that answers over HTTP, for example a router of axum,
//! behind any [`Throttle`](crate::Throttle). Needs the feature `tower`.
//!
//! - *Waiting* happens in the future of the answer, in the order of the throttle. A client that goes
//!   away takes its request out of the line, as servers drop that future then.
//! - *Refusing* is an answer with an empty body, and not an error: which one is told
//!   [below](#refusals).
//! - *One throttle* is shared by the layer, the services that it makes, and all clones of them. A
//!   service that is ready holds nothing of the throttle: a request enters when its future is polled.
//! - *The permit is held to the end of the body*: until its last frame was taken, or it failed, or it
//!   was dropped. An answer without a body gives it back at once, which is also when a connection is
//!   upgraded. What the service works with is dropped before the permit, on every way out, a panic
//!   included. The charge of a rate limiter is kept once the request has been let in, also when the
//!   client goes away.
//! - The service inside is made ready first, and kept ready while the request waits. If it takes
//!   something when it is made ready, as a concurrency limit of tower does, it has that meanwhile.
//!
//! # Refusals
//!
//! | [`ErrorKind`](crate::ErrorKind) | answer | |
//! |---|---|---|
//! | `Limited`, `QueueFull`, `NoPermits`, `TimedOut` | 429 Too Many Requests, or [another status](ThrottleLayer::status) | a later request may be let in |
//! | `Closed`, `Cancelled`, `ExceedsCapacity`, `TooManyKeys`, `Store`, and kinds to come | 503 Service Unavailable | it is not the doing of the client |
//!
//! If the throttle knows when to [try again](crate::AcquireError::retry_after), `Retry-After` says so:
//! in whole seconds, rounded up, at least 1. A rate limiter knows when it refuses at once, also because
//! the wait would be longer than the [timeout](ThrottleLayer::timeout), and when its line is full; a
//! concurrency throttle never does.
//!
//! For limits [by key](crate::Keyed) it depends on the request which throttle that is, so the layer
//! cannot have it: take `users.key_owned(user)` in a middleware of one's own, or in the handler, as
//! the example `axum_users` does.
//!
//! The [`AcquireError`](crate::AcquireError) is among the extensions of the answer, and only of one
//! that is a refusal. Whoever wants to count refusals, or to answer differently, finds it there from a
//! layer further out.
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
//! use tollgate::tower::ThrottleLayer;
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // One request at a time, and nobody waits.
//! let slots = Arc::new(Semaphore::new(1).max_waiters(0));
//! let app = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(ThrottleLayer::new(Arc::clone(&slots)));
//! let get = || app.clone().oneshot(Request::new(Body::empty()));
//!
//! // Its body is not read yet, so it has the slot.
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
//! An answer of one's own to what is refused:
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::body::{Body, to_bytes};
//! use axum::http::Request;
//! use axum::response::{IntoResponse, Response};
//! use axum::{Router, middleware};
//! use tollgate::tower::ThrottleLayer;
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

mod body;
mod entering;
mod future;
mod layer;
mod refusal;
mod service;

pub use self::body::ThrottledBody;
pub use self::future::ResponseFuture;
pub use self::layer::ThrottleLayer;
pub use self::service::ThrottleService;
