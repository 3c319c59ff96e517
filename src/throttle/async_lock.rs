//! async-lock's semaphore as a throttle, for those who have one: it gains cancellation, composition
//! and adapters. Weight 1; it cannot be closed.
//!
//! A wait that is over is dropped on the spot. Two permits that come back one right after the other
//! wake one waiter, and async-lock lets the next one know only when that future is dropped
//! (smol-rs/async-lock#18).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::async_lock::futures::{Acquire, AcquireArc};
use ::async_lock::{Semaphore, SemaphoreGuard, SemaphoreGuardArc};
use pin_project::pin_project;

use super::{Throttle, TryThrottle};
use crate::error::{AcquireError, ErrorKind};
use crate::wait::combinators;

/// The wait of a borrowed `async_lock::Semaphore`.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[pin_project]
#[must_use = "a future does nothing unless it is awaited"]
pub struct EnterAsyncLock<'a>(#[pin] Option<Acquire<'a>>);

/// The wait of a shared `async_lock::Semaphore`.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[pin_project]
#[must_use = "a future does nothing unless it is awaited"]
pub struct EnterAsyncLockOwned(#[pin] Option<AcquireArc>);

fn no_permits() -> AcquireError {
    AcquireError::new(ErrorKind::NoPermits)
}

impl<'a> Throttle for &'a Semaphore {
    type Permit = SemaphoreGuard<'a>;
    type Enter = EnterAsyncLock<'a>;

    fn enter(&self) -> EnterAsyncLock<'a> {
        EnterAsyncLock(Some(self.acquire()))
    }
}

impl<'a> TryThrottle for &'a Semaphore {
    fn try_enter(&self) -> Result<SemaphoreGuard<'a>, AcquireError> {
        self.try_acquire().ok_or_else(no_permits)
    }
}

impl Throttle for Arc<Semaphore> {
    type Permit = SemaphoreGuardArc;
    type Enter = EnterAsyncLockOwned;

    fn enter(&self) -> EnterAsyncLockOwned {
        EnterAsyncLockOwned(Some(self.acquire_arc()))
    }
}

impl TryThrottle for Arc<Semaphore> {
    fn try_enter(&self) -> Result<SemaphoreGuardArc, AcquireError> {
        self.try_acquire_arc().ok_or_else(no_permits)
    }
}

macro_rules! future {
    ([$($generics:tt)*] $enter:ty, $name:literal, $permit:ty) => {
        impl<$($generics)*> Future for $enter {
            type Output = Result<$permit, AcquireError>;

            fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                let mut acquire = self.project().0;
                let Some(waiting) = acquire.as_mut().as_pin_mut() else {
                    panic!("polled again after it was ready");
                };
                let permit = ready!(waiting.poll(context));
                acquire.set(None);
                Poll::Ready(Ok(permit))
            }
        }

        impl<$($generics)*> fmt::Debug for $enter {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name).finish_non_exhaustive()
            }
        }

        combinators!([$($generics)*] $enter);
    };
}

future!(['a] EnterAsyncLock<'a>, "EnterAsyncLock", SemaphoreGuard<'a>);
future!([] EnterAsyncLockOwned, "EnterAsyncLockOwned", SemaphoreGuardArc);
