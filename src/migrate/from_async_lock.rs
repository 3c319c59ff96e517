//! From async-lock's `Semaphore` (async-lock 3.5.0) to [`Semaphore`](crate::Semaphore).
//!
//! | async-lock | here |
//! |---|---|
//! | `Semaphore::new` | [`new`](crate::Semaphore::new) |
//! | `acquire` | [`acquire`](crate::Semaphore::acquire), which returns a `Result` |
//! | `acquire_arc` | [`acquire_owned`](crate::Semaphore::acquire_owned), on a clone of the `Arc` |
//! | `try_acquire`, `try_acquire_arc` | [`try_acquire`](crate::Semaphore::try_acquire), [`try_acquire_owned`](crate::Semaphore::try_acquire_owned), with a `Result` for an `Option` |
//! | `acquire_blocking`, `acquire_arc_blocking` | `acquire` or `acquire_owned`, and [`.wait()`](crate::Waiting::wait) |
//! | `add_permits(n)` | [`add_permits(n)`](crate::Semaphore::add_permits), or [`set_permits`](crate::Semaphore::set_permits), which also lowers the limit |
//! | `available_permits` | [`available_permits`](crate::Semaphore::available_permits) |
//! | `Acquire`, `AcquireArc` | [`Waiting`](crate::Waiting) of [`<&Semaphore as Throttle>::Enter`](crate::Throttle::Enter), of `<Arc<Semaphore> as Throttle>::Enter` |
//! | `SemaphoreGuard`, `SemaphoreGuardArc` | [`Permit<&Semaphore>`](crate::Permit), [`OwnedPermit`](crate::OwnedPermit) |
//! | guard: `forget` | [`forget`](crate::Permit::forget), which lowers the limit |
//!
//! The features are independent of an executor in both; without default features, this crate has 3
//! dependencies. async-lock's also works without `std`, which this crate needs.
//!
//! # What is different
//!
//! - **Acquiring can fail**: with [`Closed`](crate::ErrorKind::Closed) after a
//!   [`close`](crate::Semaphore::close). A semaphore that nobody closes, and whose requests are for 1
//!   permit, never fails, so `expect` is right there.
//! - **Newcomers never overtake.** async-lock's wakes a waiter when a permit comes back, and the
//!   first to poll takes it; a waiter that finds no permit goes to the end of the queue. Here a permit is
//!   granted to the first waiter. A task that takes a permit repeatedly may have profited from
//!   that, and now takes its turn.
//! - **A granted permit is held until the waiter runs or is dropped.** A future that was polled and is
//!   then set aside blocks the queue, as with all fair semaphores; drop futures that are not polled.
//! - **Each permit that returns wakes a waiter.** Of two permits that return at once, async-lock's wakes
//!   the second waiter when the first has run, and its future is dropped.
//! - **`acquire()` is `Unpin`** and allocates nothing for a wait.
//!
//! # Before and after
//!
#![cfg_attr(feature = "async-lock", doc = "```")]
#![cfg_attr(not(feature = "async-lock"), doc = "```text")]
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tollgate::AcquireError> {
//! let old = Arc::new(async_lock::Semaphore::new(1));
//! let guard = old.acquire_arc().await;
//! assert!(old.try_acquire().is_none());
//! drop(guard);
//!
//! let new = Arc::new(tollgate::Semaphore::new(1));
//! let permit = Arc::clone(&new).acquire_owned().await?;
//! assert!(new.try_acquire().is_err());
//! drop(permit);
//! # Ok(())
//! # }
//! ```
//!
//! Code that is not moved yet can be used as it is: with the feature `async-lock`, `&semaphore` and
//! `Arc<async_lock::Semaphore>` are [throttles](crate::Throttle).
