//! From tokio's `Semaphore` (tokio 1.54.1) to [`Semaphore`](crate::Semaphore).
//!
//! | tokio | here |
//! |---|---|
//! | `Semaphore`: `new`, `const_new`, `MAX_PERMITS` | [`new`](crate::Semaphore::new), which is `const`; [`MAX_PERMITS`](crate::Semaphore::MAX_PERMITS) is 2^59 - 1 in place of 2^61 - 1 |
//! | `available_permits` | [`available_permits`](crate::Semaphore::available_permits); the limit itself is [`permits`](crate::Semaphore::permits) |
//! | `add_permits(n)` | [`add_permits(n)`](crate::Semaphore::add_permits) raises the limit; to set it, [`set_permits(n)`](crate::Semaphore::set_permits) |
//! | `forget_permits(n)` | [`forget_permits(n)`](crate::Semaphore::forget_permits) lowers the limit by what is free; to lower it by more than that, [`set_permits`](crate::Semaphore::set_permits) |
//! | `acquire`, `acquire_many` | [`acquire`](crate::Semaphore::acquire), [`acquire_many`](crate::Semaphore::acquire_many) |
//! | `acquire_owned`, `acquire_many_owned` | [`acquire_owned`](crate::Semaphore::acquire_owned), [`cost_owned(n).acquire()`](crate::Semaphore::cost_owned) |
//! | `try_acquire`, `try_acquire_many` | [`try_acquire`](crate::Semaphore::try_acquire), [`try_acquire_many`](crate::Semaphore::try_acquire_many) |
//! | `try_acquire_owned`, `try_acquire_many_owned` | [`try_acquire_owned`](crate::Semaphore::try_acquire_owned), [`cost_owned(n).try_acquire()`](crate::Semaphore::cost_owned) |
//! | `blocking_acquire`, `blocking_acquire_many`, `blocking_acquire_owned`, `blocking_acquire_many_owned` | the same without `blocking_`, and [`.wait()`](crate::Waiting::wait) |
//! | `close`, `is_closed` | [`close`](crate::Semaphore::close), [`is_closed`](crate::Semaphore::is_closed) |
//! | `SemaphorePermit`, `OwnedSemaphorePermit` | [`Permit<&Semaphore>`](crate::Permit), [`OwnedPermit`](crate::OwnedPermit) |
//! | permit: `num_permits`, `semaphore` | [`count`](crate::Permit::count), [`semaphore`](crate::Permit::semaphore) |
//! | permit: `split`, `merge`, `forget` | [`split`](crate::Permit::split), [`merge`](crate::Permit::merge), [`forget`](crate::Permit::forget) |
//! | `AcquireError` | [`AcquireError`](crate::AcquireError) of the kind [`Closed`](crate::ErrorKind::Closed) |
//! | `TryAcquireError::Closed`, `NoPermits` | [`AcquireError`](crate::AcquireError) of the kinds [`Closed`](crate::ErrorKind::Closed), [`NoPermits`](crate::ErrorKind::NoPermits) |
//! | `timeout(d, semaphore.acquire())` | [`semaphore.acquire().timeout(d)`](crate::Waiting::timeout), with one error type |
//! | `token.run_until_cancelled(semaphore.acquire())` | `semaphore.acquire().cancel_on(&token)`, with the feature `tokio` |
//!
//! # What is the same
//!
//! Both are strictly first-in first-out, also for large requests. A future joins the queue at its first
//! poll, and loses its place when it is dropped; a permit that it had been granted passes to the next waiter.
//!
//! # What is different
//!
//! - **A request above the limit is refused at once**, with
//!   [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), where tokio's waits until `add_permits` has
//!   made room. Only at a limit of 0, a pause, does every request wait.
//! - **The limit is known.** `forget` and `add_permits` change it, and code that forgets a permit in one
//!   place and adds one elsewhere works as before, with a limit that goes down and up: a request above it
//!   is refused meanwhile. To pass a permit on, move an [`OwnedPermit`](crate::OwnedPermit) to the place
//!   that returns it; to wait until all work is done, use [`wait_idle`](crate::Semaphore::wait_idle).
//!   `std::mem::forget` takes a permit away for good, and does not lower the limit.
//! - **A latch of permits that are added fails**: `Semaphore::new(0)`, `add_permits(1)` by each of N tasks,
//!   and `acquire_many(N)`. After the first `add_permits` the limit is 1, and a new request for N is
//!   refused. Begin with N permits, have each task hold one until it is ready, and await
//!   [`wait_idle()`](crate::Semaphore::wait_idle).
//! - **Free permits stay in the semaphore** while they gather for a large request, and in tokio's they
//!   gather in the request: [`available_permits`](crate::Semaphore::available_permits) may be above 0
//!   while callers wait. Newcomers are behind them in both.
//! - **More refusals**: a match on errors needs a branch for the other kinds, such as
//!   [`QueueFull`](crate::ErrorKind::QueueFull) of a bounded queue.
//! - **No cooperative budget**: acquiring free permits never yields to the executor. A loop that does
//!   nothing else calls `tokio::task::consume_budget`.
//! - **`.wait()` inside a runtime** panics in debug builds only; `blocking_acquire` panics in all.
//!
//! # Before and after
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use std::time::Duration;
//! use tollgate::ErrorKind;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let second = Duration::from_secs(1);
//!
//! let old = tokio::sync::Semaphore::new(2);
//! let permit = tokio::time::timeout(second, old.acquire()).await??;
//! let too_many = tokio::time::timeout(second, old.acquire_many(3)).await;
//! assert!(too_many.is_err()); // It waited for the whole second.
//! permit.forget();
//! assert_eq!(old.available_permits(), 1);
//!
//! let new = tollgate::Semaphore::new(2);
//! let permit = new.acquire().timeout(second).await?;
//! let too_many = new.acquire_many(3).timeout(second).await.unwrap_err();
//! assert_eq!(too_many.kind(), ErrorKind::ExceedsCapacity); // At once.
//! permit.forget();
//! assert_eq!((new.available_permits(), new.permits()), (1, 1));
//! # Ok(())
//! # }
//! ```
