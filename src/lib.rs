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
//! - [The guide](guide) has a table of all throttles, and a page with a program for each task.
//! - [Basics](guide::basics) explains waiting, errors, composition, generic code and the Cargo features.
//! - [Guarantees](guarantees) compares what the throttles promise.
//! - [Coming from another crate](migrate) maps the API of tokio, governor, tower and others.
//! - [Testing](guide::test_code_that_waits): a limiter on the system clock waits in real time even while
//!   tokio's time is paused, and this page shows the clocks for tests.
//! - [Choosing an algorithm](guide::choose_an_algorithm) compares GCRA, buckets, windows and logs.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// Tests the examples of the README.
#[cfg(all(doctest, feature = "tokio", feature = "channel"))]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod adaptive;
mod algorithm;
mod concurrency;
mod debug;
mod error;
pub mod fair;
mod feedback;
mod first_use;
pub mod gate;
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
pub use crate::status::{Decision, Snapshot};
#[doc(inline)]
pub use crate::throttle::{All, BoxPermit, BoxThrottle, Cost, Throttle, TryThrottle, all};
pub use crate::time::{Clock, ManualClock, Tick};
#[cfg(feature = "tokio")]
pub use crate::wait::CancelOn;
pub use crate::wait::{Outcome, Timeout, Waiting};
