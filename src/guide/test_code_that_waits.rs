//! Test code that waits: exact times, without sleeping.
//!
//! Give the limiter a clock that the test controls: a [manual](crate::Clock::manual) one, or tokio's.
//!
//! ```toml
//! [dependencies]
//! tollgate = { path = "../tollgate" }
//!
//! [dev-dependencies] # `test-util` of tokio is for `start_paused`, that of tollgate for limits without a clock.
//! tokio = { version = "1.49", features = ["full", "test-util"] }
//! tollgate = { path = "../tollgate", features = ["test-util"] }
//! ```
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use std::time::Duration;
//!
//! use tollgate::{AcquireError, Clock, Quota, RateLimiter};
//!
//! /// Answers at most ten times per second.
//! fn answer(limiter: &RateLimiter) -> Option<&'static str> {
//!     limiter.try_acquire().ok().map(|_| "hello")
//! }
//!
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
//! // `#[tokio::test]`
//! async fn fetch_on_a_manual_clock_waits_for_it() {
//!     let clock = Clock::manual();
//!     let limiter = RateLimiter::new(Quota::per_second(1)).clock(&clock);
//!     let task = tokio::spawn(async move { fetch(&limiter).await.is_ok() });
//!     for _ in 0..2 {
//!         tokio::task::yield_now().await; // Runs the task until it waits.
//!         assert!(!task.is_finished());
//!         clock.advance(Duration::from_secs(1)); // Only wakes it.
//!     }
//!     tokio::task::yield_now().await;
//!     assert!(task.is_finished());
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
//!     fetch_on_a_manual_clock_waits_for_it().await;
//!     fetch_takes_two_seconds().await
//! }
//! ```
//!
//! # Choices
//!
//! - *A manual clock*: `advance` only wakes a task, which runs when its executor does. So advance in steps and
//!   yield, as above: a wait that begins after a large step begins at its end. No wait and no timeout ends unless
//!   the clock is advanced; `all` uses the clock of the part that it first waits for.
//! - *Tokio's time* suits code that also sleeps. Waits end at the next whole millisecond.
//! - *Limiters that the test cannot reach*, such as one that the code creates internally: with the feature
//!   `test-util` of tollgate among the dev-dependencies, a limiter without an explicit clock follows the time of each
//!   tokio runtime that uses it. The test then looks like `fetch_takes_two_seconds`, without a clock.
//! - *Limits across machines* are tested without a server: `Store::in_memory()` of the crate [`tollgate-redis`] runs on
//!   tokio's time, and its clones stand for the processes of a fleet.
//! - *A semaphore has no clock.* Its timeouts run on tokio's time, or in real time outside of a runtime and
//!   under [`wait`](crate::wait::Waiting::wait); those of a limiter run on its clock.
//!
//! # Traps
//!
//! - **A limiter on the system clock waits in real time even while tokio's time is paused.** Paused time
//!   then jumps ahead, and `tokio::time::timeout` around such a wait elapses [at
//!   once](crate::Clock#in-tests-with-paused-time).
//! - An [`AdaptiveSemaphore`], a [`FairQueue`](crate::fair::FairQueue), a
//!   [`Gate`](crate::Gate), and `Observed` of the crate [`tollgate-observe`] with its observers have a clock, too.
//!   Otherwise they see no time pass while tokio's time is paused.
//! - With `test-util`, a limiter or a [`Keyed`](crate::Keyed) in a `static` has a [state for each
//!   runtime](crate::Clock#limiters-that-are-used-in-several-runtimes), so tests that run at once do not
//!   affect each other, except that the keys of all of them count towards [`max_keys`](crate::Keyed::max_keys).
//!
//! [`tollgate-redis`]: https://docs.rs/tollgate-redis/latest/tollgate_redis/struct.Store.html#method.in_memory
//! [`tollgate-observe`]: https://docs.rs/tollgate-observe/latest/tollgate_observe/
//! [`AdaptiveSemaphore`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveSemaphore.html
