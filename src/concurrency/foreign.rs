//! The semaphores of tokio and of async-lock as throttles, so that code that uses them gains
//! cancellation, composition and adapters. Each entry takes one permit.
//!
//! Trying first does not let a new caller overtake: such a semaphore has no free permits while it
//! has waiters.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::debug::debug_as;
use crate::error::{AcquireError, ErrorKind};
use crate::throttle::handles;
use crate::wait::Waiting;
use crate::{Throttle, TryThrottle};

const NONE_FREE: AcquireError = AcquireError::new(ErrorKind::NoPermits);

pin_project! {
    /// The wait for a semaphore of tokio or of async-lock. `S` is a reference or an `Arc` of the
    /// semaphore.
    ///
    /// The wait for tokio's semaphore is boxed, but only if it has to wait. It does not take part
    /// in tokio's cooperative budget.
    ///
    /// # Panics
    ///
    /// Panics if it is polled again after completion.
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct EnterForeign<S: Foreign> {
        // `None` after completion.
        semaphore: Option<S>,
        // `Some` once the caller has to wait.
        #[pin]
        waiting: Option<S::Wait>,
    }
}

/// A semaphore of another crate.
pub trait Foreign: TryThrottle {
    /// The future of that crate.
    type Wait: Future;

    fn wait(&self) -> Self::Wait;

    /// Converts the output of that future.
    fn entered(&self, output: <Self::Wait as Future>::Output)
    -> Result<Self::Permit, AcquireError>;
}

impl<S: Foreign> Future for EnterForeign<S> {
    type Output = Result<S::Permit, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let semaphore = this.semaphore.as_ref();
        let semaphore = semaphore.expect("polled again after it was ready");
        if this.waiting.is_none() {
            match semaphore.try_enter() {
                Err(error) if error.kind() == ErrorKind::NoPermits => {
                    this.waiting.set(Some(semaphore.wait()));
                }
                answer => {
                    *this.semaphore = None;
                    return Poll::Ready(answer);
                }
            }
        }
        let waiting = this.waiting.as_mut().as_pin_mut().expect("it waits");
        let output = ready!(waiting.poll(context));
        // The future is dropped as soon as it is ready, so that its other notifications pass to
        // other waiters.
        this.waiting.set(None);
        let entered = semaphore.entered(output);
        *this.semaphore = None;
        Poll::Ready(entered)
    }
}

debug_as! { [S: Foreign] EnterForeign<S>, self => EnterForeign { .. } }

/// Each row has the type of a handle, its permit and its future; how to try it; how to wait for it;
/// and how to convert the output.
macro_rules! foreign {
    ($(
        [$($lifetime:lifetime)?] $handle:ty => $permit:ty, $wait:ty:
        |$semaphore:ident| $tried:expr, $waits:expr, $entered:ident;
    )*) => {$(
        impl<$($lifetime)?> Throttle for $handle {
            type Permit = $permit;
            type Enter = EnterForeign<Self>;

            fn enter(&self) -> Waiting<Self::Enter> {
                Waiting::new(EnterForeign {
                    semaphore: Some(Clone::clone(self)),
                    waiting: None,
                })
            }

            handles!(enter_now);
        }

        impl<$($lifetime)?> TryThrottle for $handle {
            fn try_enter(&self) -> Result<$permit, AcquireError> {
                let $semaphore = Clone::clone(self);
                $tried
            }
        }

        impl<$($lifetime)?> Foreign for $handle {
            type Wait = $wait;

            fn wait(&self) -> $wait {
                let $semaphore = Clone::clone(self);
                $waits
            }

            fn entered(
                &self,
                output: <$wait as Future>::Output,
            ) -> Result<$permit, AcquireError> {
                $entered(self, output)
            }
        }
    )*};
}

/// The semaphore of tokio. Its futures have no names, so a wait is boxed.
///
/// Like the waits of this crate, it does not take part in tokio's cooperative budget. Otherwise a
/// task that has used up its budget, and then blocks its thread in `wait`, would never be woken.
#[cfg(feature = "tokio")]
mod tokio {
    use std::sync::Arc;

    use ::tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError};
    use ::tokio::task::unconstrained;

    use super::*;
    use crate::wait::BoxFuture;

    const CLOSED: AcquireError = AcquireError::new(ErrorKind::Closed);

    fn refused(error: TryAcquireError) -> AcquireError {
        match error {
            TryAcquireError::Closed => CLOSED,
            TryAcquireError::NoPermits => NONE_FREE,
        }
    }

    fn entered<P>(_: &Semaphore, entered: Result<P, AcquireError>) -> Result<P, AcquireError> {
        entered
    }

    foreign! {
        ['a] &'a Semaphore => SemaphorePermit<'a>, BoxFuture<'a, SemaphorePermit<'a>>: |semaphore|
            semaphore.try_acquire().map_err(refused),
            Box::pin(async { unconstrained(semaphore.acquire()).await.map_err(|_| CLOSED) }),
            entered;
        [] Arc<Semaphore> => OwnedSemaphorePermit, BoxFuture<'static, OwnedSemaphorePermit>: |semaphore|
            semaphore.try_acquire_owned().map_err(refused),
            Box::pin(async { unconstrained(semaphore.acquire_owned()).await.map_err(|_| CLOSED) }),
            entered;
    }
}

/// The semaphore of async-lock, which cannot be closed.
///
/// When two permits are returned in quick succession, both notifications may go to one waiter
/// (smol-rs/async-lock#18). So a waiter that finds another free permit when it gets its own takes
/// that permit and returns it, which notifies the next waiter.
#[cfg(feature = "async-lock")]
mod async_lock {
    use std::sync::Arc;

    use ::async_lock::futures::{Acquire, AcquireArc};
    use ::async_lock::{Semaphore, SemaphoreGuard, SemaphoreGuardArc};

    use super::*;

    fn wake_next<P>(semaphore: &Semaphore, permit: P) -> Result<P, AcquireError> {
        drop(semaphore.try_acquire());
        Ok(permit)
    }

    foreign! {
        ['a] &'a Semaphore => SemaphoreGuard<'a>, Acquire<'a>: |semaphore|
            semaphore.try_acquire().ok_or(NONE_FREE),
            semaphore.acquire(),
            wake_next;
        [] Arc<Semaphore> => SemaphoreGuardArc, AcquireArc: |semaphore|
            semaphore.try_acquire_arc().ok_or(NONE_FREE),
            semaphore.acquire_arc(),
            wake_next;
    }
}
