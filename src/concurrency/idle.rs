//! The future of `wait_idle`. The waiters are served where permits return.

use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::wait_queue::WaiterId;

/// A semaphore or a pool. It is public because futures name it, and sealed by its private module.
pub trait Drains {
    /// Joins the queue for the next moment at which no permit is held, unless that is now.
    fn join_idle(&self, waker: &Waker) -> Option<WaiterId>;

    /// Checks whether the moment has come, and takes the id if so.
    fn look_idle(&self, id: &mut Option<WaiterId>, waker: &Waker) -> Poll<()>;

    /// Gives up a place in that queue.
    fn leave_idle(&self, id: &WaiterId);
}

/// The future of [`Semaphore::wait_idle`](crate::Semaphore::wait_idle),
/// [`Semaphore::wait_idle_owned`](crate::Semaphore::wait_idle_owned) and
/// [`Pool::wait_idle`](crate::Pool::wait_idle). `S` derefs to the semaphore or the pool.
///
/// It returns `()`; with a token or a [timeout](crate::Waiting::timeout) added, a `Result`. If it
/// is polled again after it has completed, it waits for the next such moment.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct WaitIdle<S: Deref<Target: Drains>> {
    source: S,
    id: Option<WaiterId>,
}

impl<S: Deref<Target: Drains>> WaitIdle<S> {
    pub(super) fn new(source: S) -> Self {
        Self { source, id: None }
    }
}

impl<S: Deref<Target: Drains>> Future for WaitIdle<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { source, id } = &mut *self;
        if id.is_some() {
            return source.look_idle(id, context.waker());
        }
        *id = source.join_idle(context.waker());
        match id {
            Some(_) => Poll::Pending,
            None => Poll::Ready(()),
        }
    }
}

impl<S: Deref<Target: Drains>> Drop for WaitIdle<S> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.source.leave_idle(&id);
        }
    }
}

// No field is ever pinned.
impl<S: Deref<Target: Drains>> Unpin for WaitIdle<S> {}
