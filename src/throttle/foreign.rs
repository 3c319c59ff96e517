//! The semaphores of tokio and of async-lock as throttles, for those who have one: it gains
//! cancellation, composition and adapters. Weight 1.
//!
//! Trying first does not let a newcomer overtake: while somebody waits, such a semaphore has no free
//! permits.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::TryThrottle;
use crate::error::{AcquireError, ErrorKind};

pin_project! {
    /// The wait of a semaphore of tokio or of async-lock, which `S` refers to: a reference or an `Arc`.
    ///
    /// The wait of tokio's is boxed, but only when it has to wait, and does not take part in tokio's
    /// cooperative budget.
    ///
    /// # Panics
    ///
    /// If it is polled again after it was ready.
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct EnterForeign<S: Foreign> {
        // `None` once it is over.
        semaphore: Option<S>,
        // Since it has to wait.
        #[pin]
        waiting: Option<S::Wait>,
    }
}

/// A semaphore of another crate.
pub trait Foreign: TryThrottle {
    /// The future of its own.
    type Wait: Future;

    fn wait(&self) -> Self::Wait;

    /// What that future has come to.
    fn entered(&self, output: <Self::Wait as Future>::Output)
    -> Result<Self::Permit, AcquireError>;
}

impl<S: Foreign> Future for EnterForeign<S> {
    type Output = Result<S::Permit, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(semaphore) = this.semaphore else {
            panic!("polled again after it was ready");
        };
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
        let Some(waiting) = this.waiting.as_mut().as_pin_mut() else {
            unreachable!("it waits");
        };
        let output = ready!(waiting.poll(context));
        // It is dropped as soon as it is ready: what else it was told goes to others then.
        this.waiting.set(None);
        let entered = semaphore.entered(output);
        *this.semaphore = None;
        Poll::Ready(entered)
    }
}

impl<S: Foreign> fmt::Debug for EnterForeign<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterForeign").finish_non_exhaustive()
    }
}

/// Each row has the type of a handle, its permit and its future; how it is tried; how it is waited
/// for; and what that comes to.
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

/// tokio's. Its futures cannot be named, so a wait is boxed.
///
/// Like our own, it does not take part in tokio's cooperative budget. Otherwise a task that has used
/// its budget up and then blocks its thread for a permit, by `wait`, would never be woken.
#[cfg(feature = "tokio")]
mod tokio {
    use std::future::Future;
    use std::sync::Arc;

    use ::tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError};
    use ::tokio::task::unconstrained;

    use super::{AcquireError, EnterForeign, ErrorKind, Foreign};
    use crate::throttle::{Throttle, TryThrottle};
    use crate::wait::{BoxFuture, Waiting};

    fn closed(_: ::tokio::sync::AcquireError) -> AcquireError {
        AcquireError::new(ErrorKind::Closed)
    }

    fn refused(error: TryAcquireError) -> AcquireError {
        AcquireError::new(match error {
            TryAcquireError::Closed => ErrorKind::Closed,
            TryAcquireError::NoPermits => ErrorKind::NoPermits,
        })
    }

    fn entered<P>(_: &Semaphore, entered: Result<P, AcquireError>) -> Result<P, AcquireError> {
        entered
    }

    foreign! {
        ['a] &'a Semaphore => SemaphorePermit<'a>, BoxFuture<'a, SemaphorePermit<'a>>: |semaphore|
            semaphore.try_acquire().map_err(refused),
            Box::pin(async { unconstrained(semaphore.acquire()).await.map_err(closed) }),
            entered;
        [] Arc<Semaphore> => OwnedSemaphorePermit, BoxFuture<'static, OwnedSemaphorePermit>: |semaphore|
            semaphore.try_acquire_owned().map_err(refused),
            Box::pin(async { unconstrained(semaphore.acquire_owned()).await.map_err(closed) }),
            entered;
    }
}

/// async-lock's, which cannot be closed.
///
/// When two permits come back one right after the other, one waiter may be told, of both
/// (smol-rs/async-lock#18). So whoever had to wait, and finds another permit free when it has its
/// own, takes that and gives it back, which tells the next.
#[cfg(feature = "async-lock")]
mod async_lock {
    use std::future::Future;
    use std::sync::Arc;

    use ::async_lock::futures::{Acquire, AcquireArc};
    use ::async_lock::{Semaphore, SemaphoreGuard, SemaphoreGuardArc};

    use super::{AcquireError, EnterForeign, ErrorKind, Foreign};
    use crate::throttle::{Throttle, TryThrottle};
    use crate::wait::Waiting;

    fn no_permits() -> AcquireError {
        AcquireError::new(ErrorKind::NoPermits)
    }

    fn tell_next<P>(semaphore: &Semaphore, permit: P) -> Result<P, AcquireError> {
        drop(semaphore.try_acquire());
        Ok(permit)
    }

    foreign! {
        ['a] &'a Semaphore => SemaphoreGuard<'a>, Acquire<'a>: |semaphore|
            semaphore.try_acquire().ok_or_else(no_permits),
            semaphore.acquire(),
            tell_next;
        [] Arc<Semaphore> => SemaphoreGuardArc, AcquireArc: |semaphore|
            semaphore.try_acquire_arc().ok_or_else(no_permits),
            semaphore.acquire_arc(),
            tell_next;
    }
}
