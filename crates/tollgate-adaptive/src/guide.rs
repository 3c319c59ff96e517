//! Find the right limit: let the limiter measure how many calls a backend can handle at once.
//!
//! An [`AdaptiveSemaphore`](crate::AdaptiveSemaphore) finds its limit from latencies. A backend
//! with `c` workers that each take the time `S` answers `c/S` calls per second. With fewer than `c` calls
//! in flight it idles; with more, calls wait in its queue, where nobody can reorder or cancel them. And `c`
//! changes over time.
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! tollgate-adaptive = { path = "../tollgate/crates/tollgate-adaptive" }
//! ```
//!
//! ```no_run
#![doc = include_str!("guide/programs/find_the_right_limit.rs")]
//! ```
//!
//! In a test, 200 tasks call a database of 40 workers in this way. The limit is between 40 and 60 after ten seconds, and
//! between 10 and 20 ten seconds after three quarters of the workers have failed.
//!
//! # A rate that a server does not tell
//!
//! An [`AdaptiveRate`](crate::AdaptiveRate) finds the rate from refusals. Report each one with
//! [`throttled`](crate::RatePermit::throttled), and drop the permit of every other call:
//!
//! ```
//! use std::time::Duration;
//!
//! use tollgate::AcquireError;
//! use tollgate_adaptive::AdaptiveRate;
//!
//! /// Sends a request when the rate admits it; `send` returns the status and `Retry-After`.
//! async fn limited(
//!     rate: &AdaptiveRate,
//!     send: impl Future<Output = (u16, Option<Duration>)>,
//! ) -> Result<u16, AcquireError> {
//!     let permit = rate.acquire().await?;
//!     let (status, retry_after) = send.await;
//!     match status {
//!         429 | 503 => permit.throttled(retry_after), // Also pauses all callers.
//!         _ => drop(permit),
//!     }
//!     Ok(status)
//! }
//! # let rate = AdaptiveRate::new();
//! # let refused = limited(&rate, async { (429, Some(Duration::from_secs(3))) });
//! # assert_eq!(futures::executor::block_on(refused)?, 429);
//! # assert!(rate.try_acquire().is_err());
//! # Ok::<_, AcquireError>(())
//! ```
//!
//! # Choices
//!
//! - *You know the number*, from a contract or the size of a pool: a [`Semaphore`](tollgate::Semaphore) or a
//!   [`RateLimiter`](tollgate::RateLimiter). A fixed limit of 1.5 times the number of workers is better than any
//!   adaptive one: 97 % of the goodput in the mean of 89 simulated phases, and 5 of them under 90 %.
//! - *A server refuses calls above a rate that you don't know*: [`AdaptiveRate`](crate::AdaptiveRate).
//! - *Services and clients over HTTP*: `overloaded_if` and `classify` of `ThrottleLayer`, of the crate
//!   [`tollgate-tower`], and of `ThrottleMiddleware`, of [`tollgate-reqwest`], report to the limit how each call ended.
//!   Without them a 503 is a fast success.
//! - *In a task, a layer, a queue or `all`*: [`Shared`](crate::Shared) in place of an `Arc`.
//! - *What an operator sees*: [`explanation`](crate::AdaptiveSnapshot::explanation) of a snapshot has the reason of the
//!   limit, the latency and the baseline. A probe halves the limit now and then, and is no overload.
//! - *Another controller*: the default, [`Gradient`](crate::Gradient), repeatedly measures the latency
//!   without a queue. [`Aimd`](crate::Aimd) is for a server that refuses early;
//!   your own controller implements [`Controller`](crate::Controller). The pictures show both, and
//!   the rules of Envoy and Netflix, beside the best fixed limit: at a server whose number of workers
//!   changes, and at one whose calls become slower.
//! - *Several processes*: each finds its own share. They need no communication, but their clocks must differ by
//!   less than half a second: all processes measure the latency without a queue at the same multiples of ten seconds of
//!   the machine's clock. In simulations, ten processes whose clocks were up to 7 s apart had twice the p99 latency of an
//!   idle server, and fifty with the same clock had twice for two minutes and 1.5 times later (2.4 and 2 times in the
//!   worst of ten runs). If a server has fewer workers than there are processes, use fixed limits: fifty processes
//!   before 25 workers had five times the p99, and lost a third of the goodput (three quarters in the worst of ten
//!   runs). The shares need not be even, and beside greedy clients a `Gradient` client yields: it gets less than half
//!   of what it asks for.
//! - *A balancer in front of unequal backends*: that is several resources. One limit for all of them is set by the
//!   smallest, so use one for each backend if you can.
//!
//! <div style="overflow-x: auto">
#![doc = include_str!("guide/adaptive-workers.svg")]
//! </div>
//!
//! <div style="overflow-x: auto">
#![doc = include_str!("guide/adaptive-service.svg")]
//! </div>
//!
//! # Traps
//!
//! - *The permit is the call.* Acquire it just before the request, drop it when the response has arrived, and
//!   put it last in [`all`](tollgate::all): every other wait looks like latency.
//! - *A refusal is fast*, so a backend that refuses everything looks idle. Call
//!   [`overloaded`](crate::AdaptivePermit::overloaded) of an `AdaptivePermit` after a timeout, 429 or 503, and
//!   [`ignore`](crate::AdaptivePermit::ignore) after a response from a cache, or if no connection could be made.
//! - *A cancelled call drops its permit*, so it counts as a fast success. Apply a timeout while you
//!   hold the permit, as in `timeout(limit, query).await`, and call `overloaded` when it elapses, or `ignore` when
//!   you give up for another reason; do not put it around the function that holds the permit.
//! - *One limiter for each resource*: the latencies of two databases are unrelated.
//! - *The queue is now in front of the limit.* Bound it with
//!   [`max_waiters`](crate::AdaptiveSemaphore::max_waiters) and a timeout, or let [a fair
//!   queue](tollgate::guide::who_goes_first) decide who goes.
//! - *Calls that become twice as slow without a queue may look like a queue.* In three of ten simulated runs,
//!   `Gradient` lost more than a tenth of the goodput in the minute after such a change, and in one of seven more than
//!   three tenths.
//! - A limit does not grow while callers use less than three quarters of it.
//!
//! [`tollgate-tower`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/
//! [`tollgate-reqwest`]: https://docs.rs/tollgate-reqwest/latest/tollgate_reqwest/
