//! Async throttle primitives: a task waits its turn, and can be cancelled at any time. A
//! [`Semaphore`] is strictly first-in first-out.
//!
//! This version answers *how many at once*: with a [`Semaphore`], and beside it with throttles made of
//! channels and of a condition variable; [this table](guarantees) has what each guarantees. Rate
//! limiting, *how many per time*, is not in it yet.
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
//! # Waiting
//!
//! Every acquire is a future, of a type with a name, and has the same three methods:
//! `cancel_on(&token)`, `timeout(duration)` and `wait()`, which blocks the thread. They stack. (Those
//! of [`CondvarSemaphore`] have the three methods and are no futures.) If a
//! cancelled token, a permit and a deadline come together, the token wins, and the permit comes
//! before the deadline.
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
//! [`all`]`((&user, &everyone, memory.cost(64)))` enters one after the other, and gives back what it
//! has when one refuses. [`semaphore.cost(n)`](Semaphore::cost) is a part that takes `n` permits, an
//! `Option` is a part that may be missing.
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
//! A semaphore knows no time. Its timeouts run on tokio's time inside a runtime, so a test with
//! paused time (`start_paused = true`) waits for nothing; elsewhere, and under `wait()`, they wait
//! in real time.
//!
//! # Features
//!
//! - `tokio` (default): `cancel_on`, `acquire_cancellable` and `CancelOn`, with the
//!   `CancellationToken` of tokio-util, timeouts on tokio's time, and tokio's semaphore as a
//!   throttle. Without it the crate runs on any executor all the same; timeouts are then served by
//!   a timer thread.
//! - `channel` (default): `Pool` and `ChannelSemaphore`.
//! - `async-lock`: async-lock's semaphore as a throttle.
//! - `stream`: `for_each_limited` and `buffer_limited`, in the module `stream`.
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
mod foreign;
pub mod guarantees;
mod line;
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

/// The permits and futures of a [`Pool`].
#[cfg(feature = "channel")]
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

#[cfg(feature = "channel")]
pub use crate::concurrency::channel_semaphore::ChannelSemaphore;
pub use crate::concurrency::condvar_semaphore::CondvarSemaphore;
#[cfg(feature = "channel")]
pub use crate::concurrency::pool::Pool;
pub use crate::concurrency::{Acquire, AcquireOwned, OwnedPermit, Permit, Semaphore, WaitIdle};
pub use crate::decision::Decision;
pub use crate::error::{AcquireError, ErrorKind};
pub use crate::quota::{Quota, QuotaError};
pub use crate::rate::{Carry, Charge, LeakyBucket, MissedTick, Oversize, RateLimiter, Reservation};
pub use crate::throttle::{
    All, BoxEnter, BoxPermit, BoxThrottle, Cost, Throttle, TryThrottle, all,
};
pub use crate::time::{Clock, ManualClock, Tick};
#[cfg(feature = "tokio")]
pub use crate::wait::CancelOn;
pub use crate::wait::{Outcome, Timeout};
