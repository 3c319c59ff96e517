//! Test code that waits: exact times, and no sleeping.
//!
//! Give the limiter a clock that the test controls: a [manual](crate::Clock::manual) one, or tokio's, which
//! `start_paused = true` stops and advances.
//!
//! ```toml
//! [dependencies]
//! tollgate = { path = "../tollgate" }
//!
//! [dev-dependencies]
//! # `test-util` is for `start_paused`.
//! tokio = { version = "1.49", features = ["full", "test-util"] }
//! ```
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use std::time::Duration;
//!
//! use tollgate::{AcquireError, Clock, Quota, RateLimiter};
//!
//! /// Answers at most ten times per second. A test passes a limiter of its own.
//! fn answer(limiter: &RateLimiter) -> Option<&'static str> {
//!     limiter.try_acquire().ok().map(|_| "hello")
//! }
//!
//! /// Makes three requests, one per second.
//! async fn fetch(limiter: &RateLimiter) -> Result<(), AcquireError> {
//!     for _ in 0..3 {
//!         limiter.acquire().await?;
//!     }
//!     Ok(())
//! }
//!
//! // `#[test]`
//! fn answer_above_the_rate_is_none() {
//!     let clock = Clock::manual();
//!     let limiter = RateLimiter::new(Quota::per_second(10)).clock(&clock);
//!     assert_eq!(answer(&limiter), Some("hello"));
//!     assert_eq!(answer(&limiter), None);
//!     clock.advance(Duration::from_millis(100));
//!     assert_eq!(answer(&limiter), Some("hello"));
//! }
//!
//! // `#[tokio::test(start_paused = true)]`
//! async fn fetch_takes_two_seconds() -> Result<(), AcquireError> {
//!     let limiter = RateLimiter::new(Quota::per_second(1)).clock(Clock::tokio());
//!     let start = tokio::time::Instant::now();
//!     fetch(&limiter).await?;
//!     assert_eq!(start.elapsed(), Duration::from_secs(2));
//!     Ok(())
//! }
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() -> Result<(), AcquireError> {
//!     answer_above_the_rate_is_none();
//!     fetch_takes_two_seconds().await
//! }
//! ```
//!
//! # Choices
//!
//! - *A manual clock* needs no runtime, and nothing moves unless the test says so.
//! - *Tokio's time* suits code that also sleeps. Its timer counts in milliseconds, so waits end at the next
//!   whole one.
//! - *Limiters that the test cannot reach*: with the feature `test-util` for the tests, a limiter without an
//!   explicit clock follows tokio's time if it is first used inside a runtime.
//! - *A semaphore has no clock.* Inside a tokio runtime its timeouts run on tokio's time, paused or not;
//!   elsewhere, and under [`wait`](crate::Waiting::wait), in real time. A limiter's timeouts run on its own
//!   clock.
//!
//! # Traps
//!
//! - **A limiter on the system clock waits in real time even while tokio's time is paused.** Paused time
//!   then jumps ahead, and `tokio::time::timeout` around such a wait elapses [at
//!   once](crate::Clock#in-tests-with-paused-time).
//! - An [`AdaptiveSemaphore`](crate::adaptive::AdaptiveSemaphore) and a [`FairQueue`](crate::fair::FairQueue)
//!   measure with a clock, too. Without one of these, calls seem to take no time while time is paused, and a
//!   [`max_queue_time`](crate::fair::Class::max_queue_time) does not pass.
//! - Tests that share a limiter in a `static` share what it owes.
