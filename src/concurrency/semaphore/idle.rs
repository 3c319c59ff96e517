//! The future of `wait_idle`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Semaphore;
use crate::line::Ticket;

/// The future of [`Semaphore::wait_idle`].
///
/// It is ready with `()`; with a token or a [timeout](Self::timeout) added, with a `Result`. Polled
/// again after it was ready, it waits anew.
#[must_use = "a future does nothing unless it is awaited"]
pub struct WaitIdle<'a> {
    semaphore: &'a Semaphore,
    ticket: Option<Ticket>,
}

impl<'a> WaitIdle<'a> {
    pub(super) fn new(semaphore: &'a Semaphore) -> Self {
        Self {
            semaphore,
            ticket: None,
        }
    }
}

impl Future for WaitIdle<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        match this.ticket {
            None => this.semaphore.join_idle(&mut this.ticket, context.waker()),
            Some(_) => this.semaphore.look_idle(&mut this.ticket, context.waker()),
        }
    }
}

impl Drop for WaitIdle<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.semaphore.leave_idle(ticket);
        }
    }
}

impl fmt::Debug for WaitIdle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitIdle")
            .field("semaphore", &self.semaphore)
            .finish()
    }
}
