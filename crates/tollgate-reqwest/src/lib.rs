//! Middleware for clients of reqwest, built on [reqwest_middleware]: [`ThrottleMiddleware`] puts requests behind any
//! [throttle](tollgate::Throttle) of [tollgate], and [`RetryAfterMiddleware`] waits for as long as servers ask.
//!
//! ```
//! use std::sync::Arc;
//!
//! use reqwest_middleware::ClientBuilder;
//! use tollgate::{Quota, RateLimiter};
//! use tollgate_reqwest::ThrottleMiddleware;
//!
//! # async fn page(url: &str) -> reqwest_middleware::Result<()> {
//! // 50 requests a second.
//! let rate = Arc::new(RateLimiter::new(Quota::per_second(50)));
//! let client = ClientBuilder::new(reqwest::Client::new())
//!     .with(ThrottleMiddleware::new(rate))
//!     .build();
//!
//! let page = client.get(url).send().await?.text().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Callers use the client like one of reqwest, with `.get(..)`, `.json(..)` and the other methods. Its clones share
//! the limits: create one client, not one for each request. `send` fails with `reqwest_middleware::Error`; `?` converts the
//! errors of reqwest into it, which the methods of a response return.
//!
//! # A client that keeps all limits
//!
//! This client sends 8 requests at once, 50 per second, and none while the server asks for a pause:
//!
//! ```
//! use std::sync::Arc;
//!
//! use reqwest::Request;
//! use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
//! use tollgate::{Quota, RateLimiter, Semaphore};
//! use tollgate_reqwest::{RetryAfterLayer, RetryAfterMiddleware, ThrottleMiddleware};
//!
//! fn polite(client: reqwest::Client) -> ClientWithMiddleware {
//!     let slots = Arc::new(Semaphore::new(8));
//!     let rate = Arc::new(RateLimiter::new(Quota::per_second(50)));
//!     let layer = RetryAfterLayer::copying(Request::try_clone).pausing(Arc::clone(&rate));
//!     let retry = RetryAfterMiddleware::from(layer);
//!     ClientBuilder::new(client)
//!         .with(ThrottleMiddleware::new(slots)) // outermost
//!         .with(retry.clone())
//!         .with(ThrottleMiddleware::new(rate))
//!         .with(retry.innermost())
//!         .build()
//! }
//! # let _ = polite;
//! ```
//!
//! The first middleware is the outermost. The slots come before the rate: in the other order, requests that have been
//! charged wait for slots, and then leave [together](tollgate::all#order). A request that is sent again waits for the
//! rate again, and keeps its slot.
//! [`pausing`](RetryAfterLayer::pausing) is for the client of one server; without it, requests to other servers are
//! sent during a pause.
//!
//! # Limits by host and by route
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use reqwest_middleware::ClientBuilder;
//! use tollgate::{Keyed, Quota, RateLimiter, Semaphore};
//! use tollgate_reqwest::{RetryAfterMiddleware, ThrottleMiddleware};
//!
//! // One request at once to each host, two seconds between two of them, and 64 to all hosts.
//! let hosts = Arc::new(Keyed::semaphores(1));
//! let by_host = ThrottleMiddleware::by(move |request| {
//!     Arc::clone(&hosts).key_owned(request.url().authority().to_owned())
//! })
//! .release_after(Duration::from_secs(2));
//! let slots = ThrottleMiddleware::new(Arc::new(Semaphore::new(64)));
//!
//! // 30 searches a minute. Other routes have no such limit.
//! let searches = Arc::new(RateLimiter::new(Quota::per_minute(30)));
//! let by_route = ThrottleMiddleware::by(move |request| {
//!     (request.url().path() == "/search").then(|| Arc::clone(&searches))
//! });
//! let retry = RetryAfterMiddleware::new();
//! # let _ = rustls::crypto::ring::default_provider().install_default();
//! let client = ClientBuilder::new(reqwest::Client::new())
//!     .with(retry.clone())
//!     .with(by_host)
//!     .with(by_route)
//!     .with(retry.innermost())
//!     .with(slots)
//!     .with(retry.innermost())
//!     .build();
//! # drop(client);
//! ```
//!
//! Put the narrow limits first, so that a request that waits for its host holds none of the shared slots. The retries
//! are outside of the limits, so that a repeated request waits for its host again and keeps the two seconds. The gate
//! is checked twice more: before the shared slots, so that a paused host holds none of them, and last, so that a
//! request that waited for a slot when the pause began is not sent.
//!
//! # Cancel requests
//!
//! - *Requests and their waits*: drop the future, as `token.run_until_cancelled(..)` does with a `CancellationToken`. Read
//!   the body in the same future, because the permit is held until the end of the body.
//! - *Only the waits*: [`close`](tollgate::Semaphore::close) the limit, which cannot be undone. Or write a
//!   [throttle](tollgate::Throttle#implementing-it) whose `enter` adds [`cancel_on`], which
//!   needs the feature `tokio` of tollgate.
//!
//! [`cancel_on`]: https://docs.rs/tollgate/latest/tollgate/wait/struct.Waiting.html#method.cancel_on
//!
//! # Beside other middleware
//!
//! - *reqwest-retry* repeats requests that fail for other reasons. Put it outside of everything else, so that each of its
//!   attempts keeps the limits. It also repeats refusals that [`RetryAfterMiddleware`] passes on, for example of a
//!   `POST`; these attempts wait at the gate until the pause ends.
//! - *reqwest-tracing* counts the wait as part of a request only if it is outside of the limits.
//! - *Redirects* are followed by reqwest itself, below all middleware: a request counts once, by its first URL. To
//!   count each redirect, set `redirect::Policy::none()` and follow redirects by hand.
//! - *Clients built on reqwest*: async-openai takes a service of tower that sends its requests. Wrap a client
//!   of this crate in a `service_fn`.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// Tests the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod retry_after;
mod throttle;

pub use self::retry_after::RetryAfterMiddleware;
pub use self::throttle::ThrottleMiddleware;
pub use tollgate_tower::RetryAfterLayer;
