//! Async throttle primitives with first-in first-out waiting and cancellation at any point.
//!
//! - *How many at once?* A [`Semaphore`]: a caller holds a permit until it drops it. A
//!   [`CondvarSemaphore`] does this for threads; `Pool` shares items and `ChannelSemaphore` keeps
//!   its tokens in a channel. [This table](guarantees) compares what they guarantee.
//! - *How many per time?* A [`RateLimiter`]: each call makes a charge that is paid off over time. A
//!   [`LeakyBucket`] is a bounded queue that releases its waiters at a fixed rate.
//! - *How many per key?* [`Keyed`] holds one of these per key, such as a user, in bounded memory.
//! - *No calls for a while?* A [`Gate`] blocks its callers for a time; a check costs one load. The
//!   crate `tollgate-detector` finds out which callers to block, in fixed memory.
//! - *The number is not known, or moves?* An [`AdaptiveSemaphore`](adaptive::AdaptiveSemaphore) finds
//!   its limit from latencies, an [`AdaptiveRate`](adaptive::AdaptiveRate) from refusals.
//! - *Who goes first?* A [`FairQueue`](fair::FairQueue) in front of any of these decides by priority
//!   and by weighted shares.
//!
//! All of them are tried, awaited, cancelled, timed out, closed and composed in the same way.
//! **[The guide](guide) has a page and a program for each task**, from parallel uploads to shutting down.
//! [`migrate`] has a table for code that comes from another crate.
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use tokio_util::sync::CancellationToken;
//! use tollgate::{ErrorKind, Semaphore};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), tollgate::AcquireError> {
//! let uploads = Semaphore::new(8);
//! let shutdown = CancellationToken::new();
//!
//! // A permit is held until it is dropped.
//! let permit = uploads.acquire().await?;
//! // Three at once, all or nothing; cancelled by a token; for at most two seconds.
//! let three = uploads
//!     .acquire_many(3)
//!     .cancel_on(&shutdown)
//!     .timeout(Duration::from_secs(2))
//!     .await?;
//! assert_eq!(uploads.available_permits(), 4);
//!
//! let refused = uploads.acquire_many(8).timeout(Duration::from_secs(2)).await;
//! assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
//! # Ok(())
//! # }
//! ```
//!
//! ```
//! use tollgate::{Quota, RateLimiter, Semaphore, all};
//!
//! // 50 per second, evenly spaced; and 20 MB per second, with bursts of up to 80 ms.
//! static REQUESTS: RateLimiter = RateLimiter::new(Quota::per_second(50));
//! static BYTES: RateLimiter = RateLimiter::new(Quota::bytes_per_second(20_000_000));
//! static SLOTS: Semaphore = Semaphore::new(8);
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tollgate::AcquireError> {
//! REQUESTS.acquire().await?;
//! // All three, or none.
//! let part = vec![0; 64 * 1024];
//! let (slot, _, _) = all((&SLOTS, &REQUESTS, BYTES.cost(part.len() as u64))).acquire().await?;
//! # drop(slot);
//! # Ok(())
//! # }
//! ```
//!
//! # Waiting
//!
//! Every acquire returns a future, [`Waiting`], with three methods: `cancel_on(&token)`,
//! `timeout(duration)` and `wait()`, which blocks the thread. They combine in any order. If a
//! cancelled token, a permit and a deadline coincide, the token wins over the permit, and the
//! permit wins over the deadline. A future joins the queue when it is first polled and leaves it
//! when it is dropped; a grant that it has not received passes to the next waiter.
//! ([`CondvarSemaphore`] has the three methods, but its requests are not futures.)
//!
//! # Errors
//!
//! Every acquire returns [`AcquireError`]; match on its [`kind`](AcquireError::kind). What can be
//! configured wrongly has [`QuotaError`] and [`AlgorithmError`].
//! Errors never allocate.
//!
//! # Several at once
//!
//! [`all`]`((&user, &everyone, memory.cost(64)))` enters its parts from left to right. When one
//! part refuses, `all` drops the permits and refunds the charges of the other parts. A charge that
//! all parts admitted stays, whatever becomes of the work, unless you [refund](RateLimiter::refund)
//! it. The hierarchy of user, team and everyone is `all((users.key(&user), teams.key(&team),
//! &everyone))`. [`semaphore.cost(n)`](Semaphore::cost) and [`limiter.cost(n)`](RateLimiter::cost)
//! take `n`; an `Option` is an optional part. [`all`] says in which order to list them: two callers that
//! list the same two semaphores in opposite orders can deadlock.
//!
//! # Generic code
//!
//! Adapters take a [`Throttle`], whose method is `enter`. It is implemented for `&T` and `Arc<T>` of
//! every type here that can be awaited and shared, for their compositions, and for the semaphores of
//! tokio and async-lock. Direct calls need no trait. [`BoxThrottle`] erases the type for a struct field.
//!
//! # Observing
//!
//! `snapshot()` of every limit, and of each key of a [`Keyed`], returns a [`Snapshot`]: its limit,
//! what is in use, and how many callers wait. That of an adaptive limit says more, and that of a fair
//! queue has a row for each class. A composition has none: keep handles of its parts. `Observed` of the crate `tollgate-observe` wraps a throttle
//! and reports each entry.
//!
//! # Crates for what throttles are used with
//!
//! Each uses the public API of this crate.
//!
//! - `tollgate-tower`: layers for services that answer over HTTP, such as axum's, and for HTTP clients.
//! - `tollgate-reqwest`: middleware for clients of reqwest.
//! - `tollgate-io`: readers, writers, bodies, streams and sinks behind a throttle, and rate limiters as
//!   streams.
//! - `tollgate-observe`: who holds a permit, metrics, and events for waits that take long.
//! - `tollgate-object-store`: a store of the crate `object_store` behind a throttle.
//! - `tollgate-redis`: the same limits across machines.
//! - `tollgate-detector`: callers who make too many calls over a long period, in fixed memory.
//!
//! # Testing
//!
//! **A limiter on the system clock waits in real time even while tokio's time is paused**, and
//! `tokio::time::timeout` around such a wait elapses at once. [This page](guide::test_code_that_waits)
//! shows the clocks for tests.
//!
//! # Features
//!
//! - `tokio` (default): `cancel_on` with the `CancellationToken` of tokio-util, timeouts on tokio's
//!   time, and tokio's semaphore as a throttle. Without it the crate still runs on any executor,
//!   and the timer thread serves timeouts.
//! - `channel` (default): `ChannelSemaphore`.
//! - `tsc` (default): rate limiters read the processor's time-stamp counter where it is reliable,
//!   which takes a third of the time of a system call.
//! - `async-lock`: async-lock's semaphore as a throttle.
//! - `serde`: serializes and parses [`Quota`] and [`Algorithm`].
//! - `test-util`: makes limiters without an explicit clock follow tokio's time.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Tests the examples of the README.
#[cfg(all(doctest, feature = "tokio", feature = "channel"))]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod adaptive;
mod algorithm;
mod concurrency;
mod debug;
mod decision;
mod error;
pub mod fair;
mod feedback;
mod first_use;
pub mod gate;
pub mod guarantees;
pub mod guide;
pub mod keyed;
mod limit_status;
pub mod migrate;
mod panic;
mod quota;
pub mod rate;
mod snapshot;
mod sync;
pub mod throttle;
mod time;
mod wait;
mod wait_queue;

/// The permits of a [`Pool`].
pub mod pool {
    pub use crate::concurrency::pool::{Permit, Pool};
}

/// The requests of a [`CondvarSemaphore`], whose permits are [`Permit`]s.
pub mod condvar_semaphore {
    pub use crate::concurrency::condvar_semaphore::{Acquire, CondvarSemaphore};
}

pub use crate::algorithm::{Algorithm, AlgorithmError};
#[cfg(feature = "channel")]
pub use crate::concurrency::channel_semaphore::ChannelSemaphore;
pub use crate::concurrency::condvar_semaphore::CondvarSemaphore;
pub use crate::concurrency::pool::Pool;
pub use crate::concurrency::{OwnedPermit, Permit, ReleaseAfter, Semaphore, WaitIdle};
pub use crate::decision::Decision;
pub use crate::error::{AcquireError, ErrorKind};
#[doc(inline)]
pub use crate::gate::Gate;
#[doc(inline)]
pub use crate::keyed::{Keyed, WhenFull};
pub use crate::quota::{Quota, QuotaError};
#[doc(inline)]
pub use crate::rate::{
    Charge, Hold, LeakyBucket, LocalLimiter, MissedTickBehavior, Oversize, QuotaChange,
    RateLimiter, Reservation,
};
pub use crate::snapshot::Snapshot;
#[doc(inline)]
pub use crate::throttle::{All, BoxPermit, BoxThrottle, Cost, Throttle, TryThrottle, all};
pub use crate::time::{Clock, ManualClock, Tick};
#[cfg(feature = "tokio")]
pub use crate::wait::CancelOn;
pub use crate::wait::{Outcome, Timeout, Waiting};
