//! tokio's semaphore as a throttle, for those who have one: it gains cancellation, composition and
//! adapters. Weight 1.
//!
//! Its futures cannot be named, so a wait is boxed. Trying first does not let a newcomer overtake:
//! while somebody waits, tokio's semaphore has no free permits.
//!
//! Like our own, it does not take part in tokio's cooperative budget. Otherwise a task that has used
//! its budget up and then blocks its thread for a permit, by `wait`, would never be woken.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError};
use ::tokio::task::unconstrained;

use super::{Throttle, TryThrottle};
use crate::error::{AcquireError, ErrorKind};
use crate::wait::{BoxedWhenWaiting, Waiting};

/// The wait of a borrowed `tokio::sync::Semaphore`; boxed only when it has to wait.
/// It does not take part in tokio's cooperative budget.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct EnterTokio<'a>(BoxedWhenWaiting<'a, &'a Semaphore, SemaphorePermit<'a>>);

/// The wait of a shared `tokio::sync::Semaphore`; boxed only when it has to wait.
/// It does not take part in tokio's cooperative budget.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct EnterTokioOwned(BoxedWhenWaiting<'static, Arc<Semaphore>, OwnedSemaphorePermit>);

fn closed(_: ::tokio::sync::AcquireError) -> AcquireError {
    AcquireError::new(ErrorKind::Closed)
}

fn refused(error: TryAcquireError) -> AcquireError {
    AcquireError::new(match error {
        TryAcquireError::Closed => ErrorKind::Closed,
        TryAcquireError::NoPermits => ErrorKind::NoPermits,
    })
}

/// Of a `tokio::sync::Semaphore`, by reference.
impl<'a> Throttle for &'a Semaphore {
    type Permit = SemaphorePermit<'a>;
    type Enter = EnterTokio<'a>;

    fn enter(&self) -> Waiting<EnterTokio<'a>> {
        Waiting::new(EnterTokio(BoxedWhenWaiting::Asking(self)))
    }
}

impl<'a> TryThrottle for &'a Semaphore {
    fn try_enter(&self) -> Result<SemaphorePermit<'a>, AcquireError> {
        self.try_acquire().map_err(refused)
    }
}

/// Of a shared `tokio::sync::Semaphore`.
impl Throttle for Arc<Semaphore> {
    type Permit = OwnedSemaphorePermit;
    type Enter = EnterTokioOwned;

    fn enter(&self) -> Waiting<EnterTokioOwned> {
        Waiting::new(EnterTokioOwned(BoxedWhenWaiting::Asking(Arc::clone(self))))
    }
}

impl TryThrottle for Arc<Semaphore> {
    fn try_enter(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(self).try_acquire_owned().map_err(refused)
    }
}

impl<'a> Future for EnterTokio<'a> {
    type Output = Result<SemaphorePermit<'a>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context, TryThrottle::try_enter, |semaphore| {
            Box::pin(async { unconstrained(semaphore.acquire()).await.map_err(closed) })
        })
    }
}

impl Future for EnterTokioOwned {
    type Output = Result<OwnedSemaphorePermit, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context, TryThrottle::try_enter, |semaphore| {
            Box::pin(async {
                unconstrained(semaphore.acquire_owned())
                    .await
                    .map_err(closed)
            })
        })
    }
}

impl fmt::Debug for EnterTokio<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterTokio").finish_non_exhaustive()
    }
}

impl fmt::Debug for EnterTokioOwned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterTokioOwned").finish_non_exhaustive()
    }
}
