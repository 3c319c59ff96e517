//! Limit an API client: at most so many calls per second, and a pause when the server asks for one.
//!
//! A [`RateLimiter`](crate::RateLimiter) delays each call until the quota admits it, in first-in
//! first-out order. All tasks of the client share it.
//!
//! ```toml
//! [dependencies]
//! futures = "0.3"
//! # `test-util` is for the paused time of this program.
//! tokio = { version = "1.49", features = ["full", "test-util"] }
//! tollgate = { path = "../tollgate" }
//! ```
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use std::error::Error;
//! use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
//! use std::time::Duration;
//!
//! use tokio::time::Instant;
//! use tollgate::{Clock, Quota, RateLimiter, Semaphore, all};
//!
//! /// The server may ask for any pause, and a pause cannot be taken back.
//! const LONGEST_PAUSE: Duration = Duration::from_secs(20);
//!
//! struct Client {
//!     slots: Semaphore,
//!     limiter: RateLimiter,
//!     sent: AtomicU32,
//! }
//!
//! impl Client {
//!     async fn call(&self) -> Result<(), Box<dyn Error>> {
//!         for _ in 0..3 {
//!             let limits = all((&self.slots, &self.limiter));
//!             let permits = limits.acquire().timeout(Duration::from_secs(30)).await?;
//!             let answer = self.send().await;
//!             drop(permits); // Not held while this call waits again.
//!             let Err(retry_after) = answer else { return Ok(()) };
//!             // No task is admitted until then.
//!             self.limiter.pause_for(retry_after.min(LONGEST_PAUSE));
//!             if retry_after > LONGEST_PAUSE {
//!                 return Err(format!("the server asks for a pause of {retry_after:?}").into());
//!             }
//!         }
//!         Err("three requests were answered with 429".into())
//!     }
//!
//!     /// In place of an HTTP request. The server answers the eighth with the status 429 and
//!     /// `Retry-After: 2`.
//!     async fn send(&self) -> Result<(), Duration> {
//!         if self.sent.fetch_add(1, Relaxed) == 7 { Err(Duration::from_secs(2)) } else { Ok(()) }
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() -> Result<(), Box<dyn Error>> {
//!     // Five at once, then one each 100 ms. The clock is for the paused time of this program.
//!     let quota = Quota::per_second(10).burst(5);
//!     let limiter = RateLimiter::new(quota).clock(Clock::tokio());
//!     let client = Client { slots: Semaphore::new(4), limiter, sent: AtomicU32::new(0) };
//!     let start = Instant::now();
//!     futures::future::try_join_all((0..20).map(|_| client.call())).await?;
//!     // The eighth is sent after 300 ms, and again two seconds later; then come twelve more.
//!     assert_eq!(start.elapsed(), Duration::from_millis(300 + 2000 + 12 * 100));
//!     Ok(())
//! }
//! ```
//!
//! # Choices
//!
//! - *The quota*: `Quota::per_minute(100)`, or `"100/60s burst 20".parse()` from a configuration. Without a
//!   [`burst`](crate::Quota::burst) it is 1, so calls are evenly spaced. A provider that counts per window
//!   or per day may need [another algorithm](super::choose_an_algorithm).
//! - *Calls of different cost*: [`acquire_many(n)`](crate::RateLimiter::acquire_many); when the cost is known
//!   later, [`settle`](crate::RateLimiter::settle) corrects it.
//! - *Not at all rather than late*: [`try_acquire`](crate::RateLimiter::try_acquire) returns an error whose
//!   [`retry_after`](crate::AcquireError::retry_after) is exact.
//! - *A rate that the server does not tell*: [`AdaptiveRate`](crate::adaptive::AdaptiveRate) finds it.
//! - *Clients of hyper and tower*: `RetryAfterLayer` of the crate `tollgate-tower` waits as long as the server's
//!   `Retry-After` or `RateLimit` fields ask for, up to its `max_wait`, a minute by default, and repeats what is
//!   idempotent and has no body. Its innermost clone goes directly around the client, so that no request that
//!   waits for the rate is sent during a pause:
//!   `let client = ThrottleLayer::new(rate).errors().layer(retry.innermost().layer(client));`
//!   `let client = ThrottleLayer::new(slots).errors().layer(retry.layer(client));`
//!
//! # With reqwest
//!
//! The crate `tollgate-reqwest` has the same as middleware. Callers use the client as they use reqwest's own:
//!
//! ```toml
//! [dependencies]
//! reqwest = { version = "0.13", features = ["json"] }
//! reqwest-middleware = { version = "0.5", features = ["json"] }
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! tollgate-reqwest = { path = "../tollgate/crates/tollgate-reqwest" }
//! ```
//!
//! ```
//! use std::sync::Arc;
//!
//! use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
//! use tollgate::{Quota, RateLimiter, Semaphore};
//! use tollgate_reqwest::{RetryAfterLayer, RetryAfterMiddleware, ThrottleMiddleware};
//!
//! /// 8 requests at once, 50 a second, and none while the server asks for a pause. Make one client, and clone it.
//! fn client() -> ClientWithMiddleware {
//!     let slots = Arc::new(Semaphore::new(8));
//!     let rate = Arc::new(RateLimiter::new(Quota::per_second(50)));
//!     let layer = RetryAfterLayer::copying(reqwest::Request::try_clone).pausing(Arc::clone(&rate));
//!     let retry = RetryAfterMiddleware::from(layer);
//!     ClientBuilder::new(reqwest::Client::new())
//!         .with(ThrottleMiddleware::new(slots)) // outermost
//!         .with(retry.clone())
//!         .with(ThrottleMiddleware::new(rate))
//!         .with(retry.innermost())
//!         .build()
//! }
//!
//! # async fn call(url: &str) -> reqwest_middleware::Result<()> {
//! let page = client().get(url).send().await?.error_for_status()?.text().await?;
//! # Ok(())
//! # }
//! # drop(call("")); // It is not sent.
//! ```
//!
//! `ThrottleMiddleware::by(|request| ..)` limits by host or route, and `release_after` leaves some time between two
//! requests to a host.
//!
//! # Traps
//!
//! - A wait that does not fit into its timeout is refused at once, with `TimedOut` and the time that is
//!   left as `retry_after`: choose a timeout above `LONGEST_PAUSE`.
//! - A pause spends the burst: calls then come one by one. Requests already admitted are still sent.
//! - Repeat only what is safe to repeat. A failed call stays charged; [`refund`](crate::RateLimiter::refund)
//!   it if nothing was sent.
//! - Each process has the whole quota. For several, [share it](super::share_a_limit).
