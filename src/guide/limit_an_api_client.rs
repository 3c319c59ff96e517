//! Limit an API client: at most so many calls per second, and a pause when the server asks for one.
//!
//! A [`RateLimiter`](crate::RateLimiter) delays each call until the quota admits it, in first-in
//! first-out order. All tasks of the client share it.
//!
//! ```toml
//! [dependencies]
//! # `test-util` is for the paused time of this program.
//! tokio = { version = "1.49", features = ["full", "test-util"] }
//! tollgate = { path = "../tollgate" }
//! ```
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use std::time::Duration;
//!
//! use tokio::time::Instant;
//! use tollgate::{AcquireError, Clock, Quota, RateLimiter};
//!
//! struct Client {
//!     limiter: RateLimiter,
//!     sent: u32,
//! }
//!
//! impl Client {
//!     async fn call(&mut self) -> Result<(), AcquireError> {
//!         loop {
//!             self.limiter.acquire().timeout(Duration::from_secs(30)).await?;
//!             match self.send().await {
//!                 Ok(()) => return Ok(()),
//!                 // No task sends anything until then.
//!                 Err(retry_after) => self.limiter.pause_for(retry_after),
//!             }
//!         }
//!     }
//!
//!     /// In place of an HTTP request. The server answers the eighth with the status 429 and
//!     /// `Retry-After: 2`.
//!     async fn send(&mut self) -> Result<(), Duration> {
//!         self.sent += 1;
//!         if self.sent == 8 { Err(Duration::from_secs(2)) } else { Ok(()) }
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() -> Result<(), AcquireError> {
//!     // Five at once, then one each 100 ms. The clock is for the paused time of this program.
//!     let quota = Quota::per_second(10).burst(5);
//!     let limiter = RateLimiter::new(quota).clock(Clock::tokio());
//!     let mut client = Client { limiter, sent: 0 };
//!
//!     let start = Instant::now();
//!     for _ in 0..20 {
//!         client.call().await?;
//!     }
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
//! - *Also at most so many at once*: `all((&slots, &limiter))`, the semaphore first; see [`all`](crate::all).
//! - *Not at all rather than late*: [`try_acquire`](crate::RateLimiter::try_acquire) returns an error whose
//!   [`retry_after`](crate::AcquireError::retry_after) is exact.
//! - *A rate that the server does not tell*: [`AdaptiveRate`](crate::adaptive::AdaptiveRate) finds it.
//! - *Clients of hyper and tower*: `tower::RetryAfterLayer` (feature `tower`) waits as long as
//!   the server's `Retry-After` or `RateLimit` fields ask for.
//!
//! # Traps
//!
//! - Repeat only requests that are safe to repeat, and bound how often.
//! - A wait that does not fit into its timeout is refused at once, not after the timeout: the limiter
//!   knows how long the queue is.
//! - A charge is not returned when a call fails. If nothing was sent, give it back with
//!   [`refund`](crate::RateLimiter::refund).
//! - Each process has the whole quota. For several, [share it](super::share_a_limit).
