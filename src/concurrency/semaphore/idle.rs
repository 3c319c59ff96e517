//! The future of `wait_idle`. The waiters are served in [`advance`](Semaphore::advance).

use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::Semaphore;
use crate::sync::lock;
use crate::wait_queue::{WaiterId, lock_if_served};

/// The future of [`Semaphore::wait_idle`] and [`Semaphore::wait_idle_owned`]. `S` derefs to the
/// semaphore.
///
/// It returns `()`; with a token or a [timeout](crate::Waiting::timeout) added, a `Result`. If it
/// is polled again after it has completed, it waits for the next such moment.
#[derive(Debug)]
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

    /// Completes if all permits have been returned; otherwise joins the queue and stores the id.
    #[cold]
    fn join(&mut self, waker: &Waker) -> Poll<()> {
        let semaphore = &*self.semaphore;
        let waker = waker.clone();
        let mut queues = lock(&semaphore.queues);
        // `NOTICE` is set before the word is read: a release that the read misses sees the flag.
        semaphore.state.ask_notice();
        if semaphore.in_use() == 0 {
            semaphore.settle(queues);
            return Poll::Ready(());
        }
        self.id = Some(queues.idle.push((), waker));
        Poll::Pending
    }
}

impl<S: Deref<Target = Semaphore>> Future for WaitIdle<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let waker = context.waker();
        if self.id.is_none() {
            return self.join(waker);
        }
        let Self { semaphore, id } = &mut *self;
        match lock_if_served(&semaphore.queues, |queues| &mut queues.idle, id, waker) {
            None => Poll::Pending,
            Some(_) => Poll::Ready(()),
        }
    }
}

impl<S: Deref<Target = Semaphore>> Drop for WaitIdle<S> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let mut queues = lock(&self.semaphore.queues);
            let waker = queues.idle.withdraw(&id);
            self.semaphore.settle(queues);
            drop(waker);
        }
    }
}

// No field is ever pinned.
impl<S: Deref<Target = Semaphore>> Unpin for WaitIdle<S> {}
