//! The future of `wait_idle`. The waiters are served where permits return.

use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::sync::{Mutex, MutexGuard, lock};
use crate::wait_queue::{WaitQueue, WaiterId, lock_if_served};

/// A semaphore or a pool. It is public because futures name it, and sealed by its private module.
pub trait Drains {
    /// The state that its lock guards.
    type State;

    /// Returns its lock.
    fn state(&self) -> &Mutex<Self::State>;

    /// Returns the queue for the next moment at which no permit is held.
    fn idlers(state: &mut Self::State) -> &mut WaitQueue<()>;

    /// Returns whether a permit is held. If so, the queue is checked when a permit returns.
    fn must_wait(&self, state: &mut Self::State) -> bool;

    /// Serves every waiter that can be served, then unlocks and wakes them.
    fn settle<'a>(&'a self, state: MutexGuard<'a, Self::State>);
}

/// The future of [`Semaphore::wait_idle`](crate::Semaphore::wait_idle),
/// [`Semaphore::wait_idle_owned`](crate::Semaphore::wait_idle_owned) and
/// [`Pool::wait_idle`](crate::Pool::wait_idle). `S` derefs to the semaphore or the pool.
///
/// It returns `()`; with a token or a [timeout](crate::wait::Waiting::timeout) added, a `Result`. If it
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
        let (waker, Self { source, id }) = (context.waker(), &mut *self);
        if id.is_some() {
            return match lock_if_served(source.state(), S::Target::idlers, id, waker) {
                None => Poll::Pending,
                Some(_) => Poll::Ready(()),
            };
        }
        // Cloned before and dropped after the lock.
        let waker = waker.clone();
        let mut state = lock(source.state());
        if !source.must_wait(&mut state) {
            source.settle(state);
            return Poll::Ready(());
        }
        *id = Some(S::Target::idlers(&mut state).push((), waker));
        Poll::Pending
    }
}

impl<S: Deref<Target: Drains>> Drop for WaitIdle<S> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let mut state = lock(self.source.state());
            let waker = S::Target::idlers(&mut state).withdraw(&id);
            self.source.settle(state);
            drop(waker);
        }
    }
}

// No field is ever pinned.
impl<S: Deref<Target: Drains>> Unpin for WaitIdle<S> {}
