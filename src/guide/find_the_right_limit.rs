//! Find the right limit: let the limiter measure how many calls a backend takes at once.
//!
//! An [`AdaptiveSemaphore`](crate::adaptive::AdaptiveSemaphore) finds its limit from latencies. A backend
//! with `c` workers that each take the time `S` answers `c/S` calls per second. With fewer than `c` calls
//! in flight it idles; with more, calls wait in its queue, where nobody can reorder or cancel them. And `c`
//! moves.
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
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use tokio::time::sleep;
//! use tollgate::adaptive::AdaptiveSemaphore;
//! use tollgate::{AcquireError, Clock, ErrorKind, Semaphore};
//!
//! /// In place of a database: its workers take 20 ms for a call, and other calls queue there.
//! async fn query(workers: &Semaphore) -> Result<(), AcquireError> {
//!     let _worker = workers.acquire().timeout(Duration::from_secs(1)).await?;
//!     sleep(Duration::from_millis(20)).await;
//!     Ok(())
//! }
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() {
//!     // The clock is for the paused time of this program.
//!     let limit = Arc::new(AdaptiveSemaphore::default().clock(Clock::tokio()));
//!     let workers = Arc::new(Semaphore::new(40));
//!     for _ in 0..200 {
//!         let (limit, workers) = (Arc::clone(&limit), Arc::clone(&workers));
//!         tokio::spawn(async move {
//!             while let Ok(permit) = limit.acquire().await {
//!                 match query(&workers).await {
//!                     Err(error) if error.kind() == ErrorKind::TimedOut => permit.overloaded(),
//!                     // Its latency is a sample, also with an error such as "no such row".
//!                     _ => drop(permit),
//!                 }
//!             }
//!         });
//!     }
//!     sleep(Duration::from_secs(10)).await;
//!     let found = limit.snapshot().permits.limit;
//!     assert!((40..60).contains(&found), "{found}");
//!
//!     // The backend loses three quarters of its workers, and the limit follows.
//!     workers.set_permits(10);
//!     sleep(Duration::from_secs(10)).await;
//!     let found = limit.snapshot().permits.limit;
//!     assert!((10..20).contains(&found), "{found}");
//! }
//! ```
//!
//! # Choices
//!
//! - *The number is known*, from a contract or the size of a pool: a [`Semaphore`](crate::Semaphore) or a
//!   [`RateLimiter`](crate::RateLimiter).
//! - *A server refuses above a rate that it does not tell*: [`AdaptiveRate`](crate::adaptive::AdaptiveRate).
//! - *Services and clients over HTTP*: `overloaded_if` and `classify` of `ThrottleLayer`, of the crate
//!   `tollgate-tower`, tell the limit how each call ended.
//! - *Another controller*: the default, [`Gradient`](crate::adaptive::Gradient), measures the latency
//!   without a queue again and again. [`Aimd`](crate::adaptive::Aimd) is for a server that refuses early;
//!   a rule of your own implements [`Controller`](crate::adaptive::Controller). The pictures show both, and
//!   the rules of Envoy and Netflix, beside the best fixed limit: at a server whose number of workers
//!   changes, and at one whose calls become slower.
//! - *Several processes*: each finds its own share, without any coordination. The shares need not be even.
//!
//! <div style="overflow-x: auto">
#![doc = include_str!("../../docs/adaptive-workers.svg")]
//! </div>
//!
//! <div style="overflow-x: auto">
#![doc = include_str!("../../docs/adaptive-service.svg")]
//! </div>
//!
//! # Traps
//!
//! - *The permit is the call.* Acquire it just before the request, drop it when the answer is there, and
//!   put it last in [`all`](crate::all): every other wait looks like latency.
//! - *A refusal is fast*, so a backend that refuses everything looks idle. Say
//!   [`overloaded`](crate::adaptive::AdaptivePermit::overloaded) after a timeout, 429 or 503, and
//!   [`ignore`](crate::adaptive::AdaptivePermit::ignore) after an answer from a cache.
//! - *A cancelled call drops its permit*, so it counts as a fast success. Say `ignore` when you give up.
//! - *One limiter for each resource*: latencies of two databases have nothing in common.
//! - *The queue is now in front of the limit.* Bound it with
//!   [`max_waiters`](crate::adaptive::AdaptiveSemaphore::max_waiters) and a timeout, or let [a fair
//!   queue](super::who_goes_first) decide who goes.
//! - A limit that callers use by less than 80 % does not move.
