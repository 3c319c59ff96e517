//! Middleware for clients of reqwest, built on [reqwest_middleware]: [`ThrottleMiddleware`] puts requests behind any
//! [throttle](tollgate::Throttle) of [tollgate], and [`PausesMiddleware`] also waits for as long as servers ask.
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
//! use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
//! use tollgate::{Quota, RateLimiter, Semaphore, all};
//! use tollgate_reqwest::{Pauses, PausesMiddleware};
//!
//! fn polite() -> reqwest::Result<ClientWithMiddleware> {
//!     let slots = Arc::new(Semaphore::new(8));
//!     let rate = Arc::new(RateLimiter::new(Quota::per_second(50)));
//!     let polite = PausesMiddleware::new(Pauses::new()).behind(all((slots, rate)));
//!     let client = reqwest::Client::builder().redirect(polite.redirect_policy());
//!     Ok(ClientBuilder::new(client.build()?).with(polite).build())
//! }
//! # let _ = polite;
//! ```
//!
//! A request first waits until its server is not paused, then for a slot and the rate, and before it is sent the
//! server is checked once more. So no request is sent in a pause, and a paused server holds none of the slots that requests
//! to others need. The slots come before the rate: in the other order, requests that have been charged wait for
//! slots, and then leave [together](tollgate::all#order). A request that is sent again enters both again.
//!
//! # Limits by host and by route
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use reqwest_middleware::ClientBuilder;
//! use tollgate::semaphore::Resting;
//! use tollgate::{Keyed, Quota, RateLimiter, Semaphore, all};
//! use tollgate_reqwest::{Pauses, PausesMiddleware, origin};
//!
//! // One request at once to each host, two seconds between two of them, and 64 to all hosts.
//! let hosts = Arc::new(Keyed::semaphores(1));
//! let slots = Arc::new(Semaphore::new(64));
//!
//! // 30 searches a minute. Other routes have no such limit.
//! let searches = Arc::new(RateLimiter::new(Quota::per_minute(30)));
//! let polite = PausesMiddleware::new(Pauses::new()).behind_by(move |request| {
//!     let host = Arc::clone(&hosts).key_owned(origin(request.url()));
//!     let is_search = request.url().path() == "/search";
//!     all((
//!         Resting::new(host, Duration::from_secs(2)),
//!         is_search.then(|| Arc::clone(&searches)),
//!         Arc::clone(&slots),
//!     ))
//! });
//! # let _ = rustls::crypto::ring::default_provider().install_default();
//! let client = ClientBuilder::new(reqwest::Client::new()).with(polite).build();
//! # drop(client);
//! ```
//!
//! Put the narrow limits first, so that a request that waits for its host holds none of the shared slots. The middleware
//! with the pauses is the last, because a request must not wait after it. A request that is sent again enters all limits
//! again, after the rest of its host. [`on_answer`](PausesMiddleware::on_answer) lets a host rest for as long as it took.
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
//!   attempts keeps the limits. It also repeats refusals that [`PausesMiddleware`] passes on, for example a 503 of a
//!   `POST`; these attempts wait until the pause ends.
//! - *reqwest-tracing* counts the wait as part of a request only if it is outside of the limits.
//! - *Redirects* are followed by reqwest itself, below all middleware: a request counts once, by its first URL. With
//!   [`redirect_policy`](PausesMiddleware::redirect_policy), none is followed into a server that is paused. To
//!   count each redirect, set `redirect::Policy::none()` and follow redirects by hand.
//! - *Clients built on reqwest*: async-openai takes a service of tower that sends its requests. Wrap a client
//!   of this crate in a `service_fn`.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// Tests the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod pauses;
mod refusals;
mod throttle;

pub use self::pauses::{PausesMiddleware, origin};
pub use self::refusals::Refusals;
pub use self::throttle::ThrottleMiddleware;
/// Returns the feedback of a response about the load of its server, for
/// [`classify`](ThrottleMiddleware::classify): [`tollgate_http::feedback_of_head`].
///
/// # Examples
///
/// ```
/// use tollgate::throttle::Feedback;
///
/// let busy = http::Response::builder().status(503).body("")?;
/// assert_eq!(tollgate_reqwest::feedback(&busy.into()), Feedback::OVERLOADED);
/// # Ok::<_, http::Error>(())
/// ```
pub fn feedback(response: &reqwest::Response) -> tollgate::throttle::Feedback {
    tollgate_http::feedback_of_head(response.status(), response.headers())
}

#[doc(no_inline)]
pub use tollgate_http::{ApiLimit, ApiLimits, Charged, Paused, Pauses, Usage, server_limits};
