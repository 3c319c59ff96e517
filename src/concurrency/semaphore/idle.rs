//! The future of `wait_idle`.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Semaphore;
use crate::wait_queue::WaiterId;

/// The future of [`Semaphore::wait_idle`] and [`Semaphore::wait_idle_owned`]. `S` derefs to the
/// semaphore.
///
/// It returns `()`; with a token or a [timeout](crate::Waiting::timeout) added, a `Result`. If it
/// is polled again after it has completed, it waits for the next such moment.
#[must_use = "a future does nothing unless it is awaited"]
pub struct WaitIdle<S: Deref<Target = Semaphore>> {
    semaphore: S,
    id: Option<WaiterId>,
}

impl<S: Deref<Target = Semaphore>> WaitIdle<S> {
    pub(super) fn new(semaphore: S) -> Self {
        Self {
            semaphore,
            id: None,
        }
    }
}

impl<S: Deref<Target = Semaphore>> Future for WaitIdle<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        match this.id {
            None => this.semaphore.join_idle(&mut this.id, context.waker()),
            Some(_) => this.semaphore.look_idle(&mut this.id, context.waker()),
        }
    }
}

impl<S: Deref<Target = Semaphore>> Drop for WaitIdle<S> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.semaphore.leave_idle(id);
        }
    }
}

// No field is ever pinned.
impl<S: Deref<Target = Semaphore>> Unpin for WaitIdle<S> {}

impl<S: Deref<Target = Semaphore>> fmt::Debug for WaitIdle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitIdle")
            .field("semaphore", &*self.semaphore)
            .finish()
    }
}
