//! Limits how many async tasks run at once, how many calls start per second, and how many bytes flow.
//!
//! Waiters are admitted in first-in first-out order. A waiter is cancelled by dropping its future, by a
//! token or by a timeout, and loses no permit for the others. All throttles are tried, awaited, closed,
//! composed and observed in the same way.
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use std::time::Duration;
//! use tollgate::Semaphore;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), tollgate::AcquireError> {
//! # let shutdown = tokio_util::sync::CancellationToken::new();
//! let slots = Semaphore::new(8); // at most eight at once
//! let slot = slots.acquire().await?; // held until it is dropped
//! let three = slots.acquire_many(3).cancel_on(&shutdown).timeout(Duration::from_secs(2)).await?;
//! # drop((slot, three));
//! # Ok(())
//! # }
//! ```
//!
//! ```
//! use tollgate::{Quota, RateLimiter, Semaphore, all};
//!
//! static SLOTS: Semaphore = Semaphore::new(8);
//! static REQUESTS: RateLimiter = RateLimiter::new(Quota::per_second(50)); // evenly spaced
//! static BYTES: RateLimiter = RateLimiter::new(Quota::bytes_per_second(20_000_000));
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tollgate::AcquireError> {
//! let (slot, _, _) = all((&SLOTS, &REQUESTS, BYTES.cost(4096))).acquire().await?;
//! # drop(slot);
//! # Ok(())
//! # }
//! ```
//!
//! | Type | What it does |
//! |---|---|
//! | [`Semaphore`] | limits how many tasks or threads do something at once |
//! | [`Pool`] | does the same, and lends each caller one of N items, such as buffers or connections |
#![cfg_attr(
    feature = "channel",
    doc = "| [`ChannelSemaphore`] | limits how many tasks do something at once, with tokens in a channel |"
)]
//! | [`CondvarSemaphore`] | limits how many threads do something at once, without fairness |
//! | [`RateLimiter`] | limits calls or bytes per second, minute, hour or day to a [`Quota`], by GCRA or another [`Algorithm`] |
//! | [`LeakyBucket`] | releases a bounded queue at a fixed rate |
//! | [`Keyed`] | has a rate limiter, a semaphore or a gate for each user, address or tenant |
//! | [`Gate`] | blocks all callers for a while; [`before`](Gate::before) another throttle, also those that wait in it |
//! | [`AdaptiveSemaphore`], [`AdaptiveRate`] of the crate `tollgate-adaptive` | adapt their limit to what a backend can handle |
//! | [`FairQueue`](fair::FairQueue) | orders the waiters of another throttle by priority and weight |
//! | [`all`] | enters several throttles in one wait |
//!
//! Generic code and adapters take any of them as a [`Throttle`], except the `CondvarSemaphore`: by reference, in an
//! `Arc`, as a key of a `Keyed` or as a class of a `FairQueue`. Permits, futures and options are in the modules; a wait that is stored
//! has the type [`Waiting<T::Enter>`](wait::Waiting#in-a-struct).
//!
//! - [The guide](guide) has a table of all throttles, and a page with a program for each task.
//! - [Basics](guide::basics) explains waiting, errors, composition, generic code and the Cargo features.
//! - [Guarantees](guarantees) compares what the throttles promise. For each promise, `proofs/README.md` in the
//!   repository says what holds it: a theorem, a model, loom, the compiler, tests, or another document.
//! - [Coming from another crate](migrate) maps the API of tokio, governor, tower and others.
//! - [Testing](guide::test_code_that_waits): a limiter on the system clock waits in real time even while
//!   tokio's time is paused, and this page shows the clocks for tests.
//! - [Choosing an algorithm](guide::choose_an_algorithm) compares GCRA, buckets, windows and logs.
//!
//! [`AdaptiveSemaphore`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveSemaphore.html
//! [`AdaptiveRate`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveRate.html

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// Tests the examples of the README.
#[cfg(all(doctest, feature = "tokio", feature = "channel"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod algorithm;
mod concurrency;
mod debug;
mod error;
pub mod fair;
mod feedback;
mod first_use;
mod gate;
pub mod guarantees;
pub mod guide;
pub mod keyed;
pub mod migrate;
mod panic;
mod quota;
pub mod rate;
mod status;
mod sync;
pub mod throttle;
pub mod time;
pub mod wait;
mod wait_queue;

/// The permits of semaphores, the wait for them, and the wait until all of them are returned.
pub mod semaphore {
    pub use crate::concurrency::{Acquire, OwnedPermit, Permit, ReleaseAfter, Resting, WaitIdle};
}

/// The permits of a [`Pool`].
pub mod pool {
    pub use crate::concurrency::pool::Permit;
}

/// The result of [`CondvarSemaphore::acquire`]. Its permits are those of [`semaphore`].
pub mod condvar_semaphore {
    pub use crate::concurrency::condvar_semaphore::Acquire;
}

// Each item has one public path: here are the types that users choose between or meet first, and the modules
// have those that these return.
pub use crate::algorithm::Algorithm;
#[cfg(feature = "channel")]
pub use crate::concurrency::channel_semaphore::ChannelSemaphore;
pub use crate::concurrency::condvar_semaphore::CondvarSemaphore;
pub use crate::concurrency::pool::Pool;
pub use crate::concurrency::semaphore::Semaphore;
pub use crate::error::{AcquireError, ErrorKind};
pub use crate::gate::Gate;
pub use crate::keyed::by_key::Keyed;
pub use crate::quota::Quota;
pub use crate::rate::leaky_bucket::LeakyBucket;
pub use crate::rate::limiter::RateLimiter;
pub use crate::status::{Decision, Snapshot};
pub use crate::throttle::all::all;
pub use crate::throttle::traits::{Throttle, TryThrottle};
pub use crate::time::clock::Clock;
