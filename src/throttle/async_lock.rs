//! async-lock's semaphore as a throttle, for those who have one: it gains cancellation, composition
//! and adapters. Weight 1; it cannot be closed.
//!
//! When two permits come back one right after the other, one waiter may be told, of both
//! (smol-rs/async-lock#18). So whoever had to wait, and finds another permit free when it has its own,
//! takes that and gives it back, which tells the next; and a wait that is over is dropped on the spot.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::async_lock::futures::{Acquire, AcquireArc};
use ::async_lock::{Semaphore, SemaphoreGuard, SemaphoreGuardArc};
use pin_project_lite::pin_project;

use super::{Throttle, TryThrottle};
use crate::error::{AcquireError, ErrorKind};
use crate::wait::Waiting;

pin_project! {
    /// The wait of a borrowed `async_lock::Semaphore`.
    ///
    /// # Panics
    ///
    /// If it is polled again after it was ready.
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct EnterAsyncLock<'a> {
        // `None` once it is over.
        semaphore: Option<&'a Semaphore>,
        // Since it has to wait.
        #[pin]
        waiting: Option<Acquire<'a>>,
    }
}

pin_project! {
    /// The wait of a shared `async_lock::Semaphore`.
    ///
    /// # Panics
    ///
    /// If it is polled again after it was ready.
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct EnterAsyncLockOwned {
        // `None` once it is over.
        semaphore: Option<Arc<Semaphore>>,
        // Since it has to wait.
        #[pin]
        waiting: Option<AcquireArc>,
    }
}

fn no_permits() -> AcquireError {
    AcquireError::new(ErrorKind::NoPermits)
}

/// Of an `async_lock::Semaphore`, by reference.
impl<'a> Throttle for &'a Semaphore {
    type Permit = SemaphoreGuard<'a>;
    type Enter = EnterAsyncLock<'a>;

    fn enter(&self) -> Waiting<EnterAsyncLock<'a>> {
        Waiting::new(EnterAsyncLock {
            semaphore: Some(self),
            waiting: None,
        })
    }
}

impl<'a> TryThrottle for &'a Semaphore {
    fn try_enter(&self) -> Result<SemaphoreGuard<'a>, AcquireError> {
        self.try_acquire().ok_or_else(no_permits)
    }
}

/// Of a shared `async_lock::Semaphore`.
impl Throttle for Arc<Semaphore> {
    type Permit = SemaphoreGuardArc;
    type Enter = EnterAsyncLockOwned;

    fn enter(&self) -> Waiting<EnterAsyncLockOwned> {
        Waiting::new(EnterAsyncLockOwned {
            semaphore: Some(Arc::clone(self)),
            waiting: None,
        })
    }
}

impl TryThrottle for Arc<Semaphore> {
    fn try_enter(&self) -> Result<SemaphoreGuardArc, AcquireError> {
        self.try_acquire_arc().ok_or_else(no_permits)
    }
}

macro_rules! future {
    ([$($generics:tt)*] $enter:ty, $name:literal, $permit:ty, $try_acquire:ident, $acquire:ident) => {
        impl<$($generics)*> Future for $enter {
            type Output = Result<$permit, AcquireError>;

            fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                let mut this = self.project();
                let Some(semaphore) = this.semaphore else {
                    panic!("polled again after it was ready");
                };
                if this.waiting.is_none() {
                    if let Some(permit) = semaphore.$try_acquire() {
                        *this.semaphore = None;
                        return Poll::Ready(Ok(permit));
                    }
                    this.waiting.set(Some(semaphore.$acquire()));
                }
                let Some(waiting) = this.waiting.as_mut().as_pin_mut() else {
                    unreachable!("it waits");
                };
                let permit = ready!(waiting.poll(context));
                this.waiting.set(None);
                // To give it back is to tell the next one.
                drop(semaphore.try_acquire());
                *this.semaphore = None;
                Poll::Ready(Ok(permit))
            }
        }

        impl<$($generics)*> fmt::Debug for $enter {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name).finish_non_exhaustive()
            }
        }

    };
}

future!(
    ['a] EnterAsyncLock<'a>, "EnterAsyncLock", SemaphoreGuard<'a>, try_acquire, acquire
);
future!(
    [] EnterAsyncLockOwned, "EnterAsyncLockOwned", SemaphoreGuardArc, try_acquire_arc, acquire_arc
);
