//! The future of `acquire`: that of a semaphore, and then the call begins.

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{AdaptivePermit, AdaptiveSemaphore};
use crate::concurrency::acquire::{Acquire as AcquirePlace, Queued};
use crate::error::AcquireError;
use crate::wait::{Polled, report_clock};
use crate::wait_queue::WaiterId;

/// The future of [`AdaptiveSemaphore::acquire`] and
/// [`acquire_owned`](AdaptiveSemaphore::acquire_owned). `S` derefs to the semaphore.
///
/// It joins the queue when it is first polled. Dropping it loses nothing.
///
/// # Panics
///
/// Panics if it is polled again after it has completed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<S: Deref<Target = AdaptiveSemaphore>>(AcquirePlace<S>);

impl<S: Deref<Target = AdaptiveSemaphore>> Acquire<S> {
    #[inline]
    pub(in crate::adaptive) fn new(semaphore: S) -> Self {
        Self(AcquirePlace::new(semaphore, 1))
    }
}

impl Queued for AdaptiveSemaphore {
    type Found = ();

    #[inline]
    fn take_now(&self, permits: u32) -> Option<()> {
        self.semaphore.take_now(permits)
    }

    fn join(&self, permits: u32, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<()> {
        // A timeout runs on the clock of the semaphore.
        report_clock(&self.clock);
        self.semaphore.join(permits, id, waker)
    }

    fn look(&self, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<()> {
        report_clock(&self.clock);
        self.semaphore.look(id, waker)
    }

    fn leave(&self, id: WaiterId, permits: u32) {
        self.semaphore.leave(id, permits);
    }
}

impl<S: Deref<Target = AdaptiveSemaphore>> Future for Acquire<S> {
    type Output = Result<AdaptivePermit<S>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.0.poll_take(context);
        polled.map_ok(|(semaphore, ())| AdaptivePermit::new(semaphore))
    }
}

impl<S: Deref<Target = AdaptiveSemaphore>> fmt::Debug for Acquire<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
