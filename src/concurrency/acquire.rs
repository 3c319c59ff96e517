//! The future of `acquire`: at first only a request, later perhaps a waiter in the queue.
//!
//! It is `Unpin` and small, because the waiter is stored in the queue and not in the future.

use std::ops::Deref;
use std::task::{Context, Poll, Waker};

use crate::debug::debug_as;
use crate::wait::Polled;
use crate::wait_queue::WaiterId;

/// A semaphore or a pool. It is public because futures name it, and sealed by its private module.
pub trait Queued {
    /// The value that a caller gets besides the permits, for example an item of a pool.
    type Found;

    /// Takes permits now, if there are no waiters.
    fn take_now(&self, permits: u64) -> Option<Self::Found>;

    /// Handles a first poll that could not take permits: takes them after all, is refused, or joins
    /// the queue and stores its id.
    fn join(&self, permits: u64, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<Self::Found>;

    /// Handles a later poll: checks whether the waiter has been served, and takes its id if so.
    fn look(&self, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<Self::Found>;

    /// Gives up a place in the queue, or passes on a grant that will not be collected.
    fn leave(&self, id: WaiterId, permits: u64);
}

/// The future of [`Semaphore::acquire`](crate::Semaphore::acquire) and the other methods that wait. `S` derefs to the
/// semaphore: it is `&Semaphore`, or `Arc<Semaphore>` for the `_owned` methods, or [any pointer](Self::new).
///
/// It joins the queue when it is first polled. See [the semaphore](crate::Semaphore#cancel-safety) for the
/// effects of dropping it.
///
/// # Panics
///
/// Panics if it is polled again after it has completed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<S: Deref<Target: Queued>> {
    /// `None` once the future has completed.
    pub(super) source: Option<S>,
    pub(super) permits: u64,
    /// The place in the queue, if a poll had to wait.
    pub(super) id: Option<WaiterId>,
}

/// The value that was taken, and the semaphore or pool that it belongs to.
type Taken<S> = (S, <<S as Deref>::Target as Queued>::Found);

impl<S: Deref<Target: Queued>> Acquire<S> {
    /// Creates a future for a number of permits that the source can count.
    #[inline]
    pub(crate) fn of(source: S, permits: u64) -> Self {
        Self {
            source: Some(source),
            permits,
            id: None,
        }
    }

    #[inline(always)]
    pub(crate) fn poll_found(&mut self, context: &Context<'_>) -> Polled<Taken<S>> {
        let Some(source) = self.source.take() else {
            panic!("polled again after it was ready");
        };
        if self.id.is_none() {
            if let Some(found) = source.take_now(self.permits) {
                return Poll::Ready(Ok((source, found)));
            }
        }
        self.poll_queue(source, context)
    }

    /// Polls in the queue: joins it, or checks the state of the waiter.
    #[inline(never)]
    fn poll_queue(&mut self, source: S, context: &Context<'_>) -> Polled<Taken<S>> {
        // If a waker panics when it is cloned, `drop` must still find the source.
        let source = self.source.insert(source);
        let polled = match self.id {
            None => source.join(self.permits, &mut self.id, context.waker()),
            Some(_) => source.look(&mut self.id, context.waker()),
        };
        let found = std::task::ready!(polled);
        let source = self.source.take().expect("it was there");
        Poll::Ready(found.map(|found| (source, found)))
    }

    #[inline(never)]
    fn leave(&mut self) {
        if let (Some(id), Some(source)) = (self.id.take(), &self.source) {
            source.leave(id, self.permits);
        }
    }
}

impl<S: Deref<Target: Queued>> Drop for Acquire<S> {
    #[inline]
    fn drop(&mut self) {
        if self.id.is_some() {
            self.leave();
        }
    }
}

// No field is ever pinned.
impl<S: Deref<Target: Queued>> Unpin for Acquire<S> {}

debug_as! {
    [S: Deref<Target: Queued>] Acquire<S>, self
    => Acquire { permits: self.permits, queued: self.id.is_some(), .. }
}
