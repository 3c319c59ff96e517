//! From tower's limits (tower 0.5.3) to `ThrottleLayer`, of the crate `tollgate-tower`.
//!
//! | tower | here |
//! |---|---|
//! | `ServiceBuilder::concurrency_limit(n)`, `ConcurrencyLimitLayer::new(n)` | `ThrottleLayer::new(Arc::new(Semaphore::new(n)))` |
//! | `GlobalConcurrencyLimitLayer::new(n)` | the same: all services of a layer share its throttle |
//! | `GlobalConcurrencyLimitLayer::with_semaphore(s)`, `ConcurrencyLimit::with_semaphore` | `ThrottleLayer::new(s)`, also with tokio's semaphore |
//! | `ServiceBuilder::rate_limit(n, d)`, `RateLimitLayer::new(n, d)` | `ThrottleLayer::new(Arc::new(RateLimiter::new(Quota::new(n, d).burst(n))))` |
//! | `Rate::new(n, d)` | [`Quota::new(n, d)`](crate::Quota::new)[`.burst(n)`](crate::Quota::burst) |
//! | `ServiceBuilder::load_shed()`, `LoadShedLayer::new` around a limit | `ThrottleLayer::new(..).refusing()` |
//! | `Overloaded` and its `new` | a response of 429 or 503, with a `Retry-After` if the throttle knows one, or of 413 if the request costs more than the limit gives; with `.errors()` an [`AcquireError`](crate::AcquireError) |
//! | `ConcurrencyLimit::new`, `RateLimit::new`, `LoadShed::new` | `layer.layer(service)` |
//! | `get_ref`, `get_mut`, `into_inner` | –; keep an `Arc` of the throttle to look at it |
//! | `ResponseFuture` of each | `tollgate_tower::ResponseFuture` |
//! | `tower::buffer` around a limit that is not `Clone` | not needed: services are cloned with their limit |
//!
//! # What is different
//!
//! - **Where a request waits**: in its own future, and not in `poll_ready`. So a service that is ready
//!   holds no permit, a request that is dropped leaves the queue, and `LoadShed` around a `ThrottleLayer`
//!   sheds nothing. Use `refusing`, [`max_waiters`](crate::Semaphore::max_waiters) or `.timeout(d)`.
//! - **One limit for all services of a layer.** axum puts a layer around each route of a router on its
//!   own, so `ConcurrencyLimitLayer` gives each route a limit of its own; a `ThrottleLayer` limits all of
//!   them together. For a limit by route, make a layer for each, or choose the throttle by the request.
//! - **A permit is held to the end of the body**, and not of the future that returns the response: a
//!   download counts until it has been sent.
//! - **`RateLimit` is a window that begins with a request**: it admits `n` at the end of one and `n` at
//!   the beginning of the next. [`Quota::new(n, d)`](crate::Quota::new) spaces calls evenly, with a burst
//!   of 1; `.burst(n)` admits `n` at once, and then one each `d / n`. The old behavior without its double
//!   burst is [`Algorithm::SlidingLog`](crate::Algorithm::SlidingLog). A `RateLimit` is not `Clone`.
//! - **Order**: tower's limit is as fair as tokio's semaphore; `RateLimit` has one caller at a time.
//!
//! # Before and after
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use tollgate_tower::ThrottleLayer;
//! use tollgate::{Quota, RateLimiter, Semaphore, all};
//! use tower::{Layer, Service, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower::BoxError> {
//! // ServiceBuilder::new()
//! //     .load_shed()
//! //     .concurrency_limit(64)
//! //     .rate_limit(100, Duration::from_secs(1))
//! let slots = Arc::new(Semaphore::new(64));
//! let quota = Quota::new(100, Duration::from_secs(1)).burst(100);
//! let rate = Arc::new(RateLimiter::new(quota));
//! // This service does not speak HTTP, so rejections are errors.
//! let layer = ThrottleLayer::new(all((Arc::clone(&slots), rate))).refusing().errors();
//!
//! let mut double = layer.layer(service_fn(async |n: u32| Ok::<_, tower::BoxError>(2 * n)));
//! assert_eq!(double.ready().await?.call(21).await?, 42);
//! assert_eq!(double.ready().await?.call(22).await?, 44);
//! slots.set_permits(0);
//! assert!(double.ready().await?.call(21).await.is_err());
//! # Ok(())
//! # }
//! ```
