//! Async throttle primitives: a task waits its turn, first-in first-out, and can be cancelled at
//! any time.
//!
//! - *How many at once?* A [`Semaphore`]: a permit is held, and comes back when it is dropped.
//!   Beside it there are throttles made of channels and of a condition variable; [this
//!   table](guarantees) has what each guarantees.
//! - *How many per time?* A [`RateLimiter`]: a charge is made, and time pays it off. As a queue
//!   that is let through at a fixed rate, a [`LeakyBucket`].
//! - *How many for each?* [`Keyed`] is one of these for each key, such as a user, in bounded memory.
//! - *Who makes far too many?* A [`Detector`] counts calls apart from the request path, in fixed
//!   memory, and shuts the [`Gate`] of who does, for a while.
//!
//! All are tried, awaited, cancelled, timed out, closed, changed, observed and composed in the same
//! way; a gate is one more part of a composition. [Which algorithm](which_algorithm) a limiter goes
//! by can be chosen.
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
//! // Several at once, all or nothing; cancelled by a token; not for longer than two seconds.
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
//! // 50 a second, evenly; and 20 MB a second, of which a megabyte may go at once.
//! static REQUESTS: RateLimiter = RateLimiter::new(Quota::per_second(50));
//! static BYTES: RateLimiter = RateLimiter::new(Quota::per_second(20_000_000).burst(1_000_000));
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
//! Every acquire is a future, of a type with a name, and has the same three methods:
//! `cancel_on(&token)`, `timeout(duration)` and `wait()`, which blocks the thread. They stack.
//! (Those of [`CondvarSemaphore`] have the three methods and are no futures.) If a cancelled token,
//! a permit and a deadline come together, the token wins, and the permit comes before the deadline.
//! A future joins the line when it is first polled, and leaves it when it is dropped; what it had
//! been granted goes to the next in line.
//!
//! # Errors
//!
//! There is one, [`AcquireError`]; its [`kind`](AcquireError::kind) says what happened. To refuse
//! allocates nothing.
//!
//! # Several at once
//!
//! [`all`]`((&user, &everyone, memory.cost(64)))` enters one after the other, and gives back what
//! it has when one refuses: permits are dropped, charges refunded. (What was let in by all stays
//! charged, whatever becomes of the work, unless you [refund](RateLimiter::refund) it.)
//! A user, a team and everyone are `all((users.key(&user), teams.key(&team), &everyone))`.
//! [`semaphore.cost(n)`](Semaphore::cost) and [`limiter.cost(n)`](RateLimiter::cost) are parts that
//! take `n`, an `Option` is a part that may be missing. Put the narrow scope first, and permits
//! before rates.
//!
//! # Generic code
//!
//! Adapters take a [`Throttle`], which is implemented for `&T` and `Arc<T>` of every type here that
//! can be awaited, for what is made of them, and for the semaphores of tokio and async-lock. To
//! use a type of this crate directly no trait is needed. [`Throttle::boxed`] erases the type, for a
//! field of a struct.
//!
//! # Testing
//!
//! A rate limiter can be given a clock. With a [manual](Clock::manual) one a test says itself how
//! time goes on, and needs no runtime:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Clock, Quota, RateLimiter};
//!
//! /// What is to be tested: it answers at most ten times a second.
//! fn answer(limiter: &RateLimiter) -> Option<&'static str> {
//!     limiter.try_acquire().ok().map(|_| "hello")
//! }
//!
//! let clock = Clock::manual();
//! let limiter = RateLimiter::new(Quota::per_second(10)).clock(&clock);
//! assert_eq!(answer(&limiter), Some("hello"));
//! assert_eq!(answer(&limiter), None);
//! clock.advance(Duration::from_millis(100));
//! assert_eq!(answer(&limiter), Some("hello"));
//! ```
//!
//! To run on tokio's time, which `start_paused = true` stops and moves on by itself, either choose
//! `Clock::tokio()`, or turn on the feature `test-util` for the tests: then a limiter for which no
//! clock was chosen, and which is first used inside a runtime, follows that.
//!
//! ```toml
//! [dev-dependencies]
//! tollgate = { version = "0.1", features = ["test-util"] }
//! ```
//!
//! **Without either, a limiter waits in real time, also where tokio's time is paused.** Tokio's
//! timer counts in milliseconds, so in paused time a wait ends at the next whole one.
//!
//! Tests that share a limiter in a `static` share what it is owed, and each has a time of its own;
//! hand the limiter in, as here, or let them run one after the other.
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use std::time::Duration;
//! use tokio::time::Instant;
//! use tollgate::{Clock, Quota, RateLimiter};
//!
//! /// What is to be tested: three requests, one a second.
//! async fn fetch(limiter: &RateLimiter) -> Result<(), tollgate::AcquireError> {
//!     for _ in 0..3 {
//!         limiter.acquire().await?;
//!     }
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), tollgate::AcquireError> {
//! // In a test: `#[tokio::test(start_paused = true)]`.
//! let limiter = RateLimiter::new(Quota::per_second(1)).clock(Clock::tokio());
//! let start = Instant::now();
//! fetch(&limiter).await?;
//! assert_eq!(start.elapsed(), Duration::from_secs(2));
//! # Ok(())
//! # }
//! ```
//!
//! A semaphore knows no time. Its timeouts run on tokio's time inside a runtime, so a test with
//! paused time waits for nothing; elsewhere, and under `wait()`, they wait in real time. The
//! timeouts of a limiter run on its own clock.
//!
//! # Features
//!
//! - `tokio` (default): `cancel_on` and `CancelOn`, with the
//!   `CancellationToken` of tokio-util, timeouts on tokio's time, and tokio's semaphore as a
//!   throttle. Without it the crate runs on any executor all the same; timeouts are then served by
//!   a timer thread.
//! - `channel` (default): `Pool` and `ChannelSemaphore`.
//! - `tsc` (default): rate limiters read the processor's counter, where it is fit for that, which
//!   takes a third of the time that it takes to ask the operating system.
//! - `async-lock`: async-lock's semaphore as a throttle.
//! - `stream`: `for_each_limited` and `buffer_limited`, in the module `stream`; and `ticks` of rate
//!   limiters.
//! - `serde`: [`Quota`] and [`rate::State`] can be written and read.
//! - `test-util`: for tests, see [testing](#testing).
//! - `tower`: a layer for services that answer over HTTP, such as axum's, in the module `tower`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// The examples of the README are tested as well.
#[cfg(all(doctest, feature = "tokio", feature = "channel", feature = "stream"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod algorithm;
mod concurrency;
mod const_panic;
mod decision;
mod error;
pub mod gate;
pub mod guarantees;
pub mod keyed;

mod panic;
mod quota;
pub mod rate;
#[cfg(feature = "stream")]
pub mod stream;
mod sync;
pub mod throttle;
mod time;
#[cfg(feature = "tower")]
pub mod tower;
mod wait;
mod wait_queue;
pub mod which_algorithm;

/// The permits and futures of a [`Pool`].
pub mod pool {
    pub use crate::concurrency::pool::{Acquire, AcquireOwned, OwnedPermit, Permit, Pool};
}

/// The permits and futures of a [`ChannelSemaphore`].
#[cfg(feature = "channel")]
pub mod channel_semaphore {
    pub use crate::concurrency::channel_semaphore::{
        Acquire, AcquireOwned, ChannelSemaphore, OwnedPermit, Permit,
    };
}

/// The permits and requests of a [`CondvarSemaphore`].
pub mod condvar_semaphore {
    pub use crate::concurrency::condvar_semaphore::{
        Acquire, AcquireOwned, CondvarSemaphore, OwnedPermit, Permit,
    };
}

pub use crate::algorithm::{Algorithm, AlgorithmError};
#[cfg(feature = "channel")]
pub use crate::concurrency::channel_semaphore::ChannelSemaphore;
pub use crate::concurrency::condvar_semaphore::CondvarSemaphore;
pub use crate::concurrency::pool::Pool;
pub use crate::concurrency::{Acquire, AcquireOwned, OwnedPermit, Permit, Semaphore, WaitIdle};
pub use crate::decision::Decision;
pub use crate::error::{AcquireError, ErrorKind};
pub use crate::gate::{Detector, Gate};
pub use crate::keyed::{AtCap, Keyed};
pub use crate::quota::{Quota, QuotaError};
pub use crate::rate::{
    Carry, Charge, LeakyBucket, LocalLimiter, MissedTick, Oversize, RateLimiter, Reservation,
};
pub use crate::throttle::{
    All, BoxEnter, BoxPermit, BoxThrottle, Cost, Throttle, TryThrottle, all,
};
pub use crate::time::{Clock, ManualClock, Tick};
#[cfg(feature = "tokio")]
pub use crate::wait::CancelOn;
pub use crate::wait::{Outcome, Timeout, Waiting};
