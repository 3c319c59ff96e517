//! The future of `acquire`: at first nothing but a request, then perhaps a place in the queue.
//!
//! It is `Unpin` and small, because the waiter is in the queue and not in the future.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{Permit, Semaphore};
use crate::error::AcquireError;
use crate::wait_queue::WaiterId;

/// The future of [`Semaphore::acquire`] and the other methods that wait. `S` leads to the semaphore:
/// `&Semaphore`, or `Arc<Semaphore>` for the `_owned` methods.
///
/// It joins the queue when it is first polled. See [the semaphore](Semaphore#cancel-safety) for
/// what dropping it does.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<S: Deref<Target = Semaphore>> {
    /// `None` once it is over.
    semaphore: Option<S>,
    permits: u32,
    /// The place in the queue, since a poll that had to wait.
    ticket: Option<WaiterId>,
}

/// An [`Acquire`] that shares the semaphore and so may move into a task.
pub type AcquireOwned = Acquire<Arc<Semaphore>>;

impl<S: Deref<Target = Semaphore>> Acquire<S> {
    #[inline]
    pub(in crate::concurrency) fn new(semaphore: S, permits: u32) -> Self {
        Self {
            semaphore: Some(semaphore),
            permits,
            ticket: None,
        }
    }

    /// A poll that has to join the queue, or to look how it goes there.
    #[inline(never)]
    fn poll_queue(
        &mut self,
        semaphore: S,
        context: &Context<'_>,
    ) -> Poll<Result<Permit<S>, AcquireError>> {
        if self
            .ticket
            .as_ref()
            .is_some_and(|ticket| semaphore.has_granted(ticket))
        {
            self.ticket = None;
            return Poll::Ready(Ok(Permit::new(semaphore, self.permits)));
        }
        // If a waker panics when it is cloned, `drop` must still find the semaphore.
        let semaphore = self.semaphore.insert(semaphore);
        let polled = match self.ticket {
            None => semaphore.join(self.permits, &mut self.ticket, context.waker()),
            Some(_) => semaphore.look(&mut self.ticket, context.waker()),
        };
        if polled.is_pending() {
            return Poll::Pending;
        }
        match (polled, self.semaphore.take()) {
            (Poll::Ready(Ok(())), Some(semaphore)) => {
                Poll::Ready(Ok(Permit::new(semaphore, self.permits)))
            }
            (Poll::Ready(Err(error)), _) => Poll::Ready(Err(error)),
            (Poll::Ready(Ok(())), None) | (Poll::Pending, _) => unreachable!("it was there"),
        }
    }
}

impl<S: Deref<Target = Semaphore>> Acquire<S> {
    #[inline(never)]
    fn leave(&mut self) {
        if let (Some(ticket), Some(semaphore)) = (self.ticket.take(), &self.semaphore) {
            semaphore.leave(ticket, self.permits);
        }
    }
}

impl<S: Deref<Target = Semaphore>> Future for Acquire<S> {
    type Output = Result<Permit<S>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(semaphore) = self.semaphore.take() else {
            panic!("polled again after it was ready");
        };
        if self.ticket.is_none() && semaphore.state.try_take(self.permits) {
            return Poll::Ready(Ok(Permit::new(semaphore, self.permits)));
        }
        self.poll_queue(semaphore, context)
    }
}

impl<S: Deref<Target = Semaphore>> Drop for Acquire<S> {
    #[inline]
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.leave();
        }
    }
}

// Nothing in it is ever pinned.
impl<S: Deref<Target = Semaphore>> Unpin for Acquire<S> {}

impl<S: Deref<Target = Semaphore>> fmt::Debug for Acquire<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("permits", &self.permits)
            .field("queued", &self.ticket.is_some())
            .finish_non_exhaustive()
    }
}
