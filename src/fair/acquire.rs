//! The future of a class: at first only a request, later perhaps a waiter in the queue.
//!
//! It is `Unpin` and small: the waiter is stored in the queue, and only the queue's entrant waits
//! for the throttle.

use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::in_class::Handle;
use super::permit::{FairPermit, Hold};
use super::schedule::Served;
use super::shared::{EnterFn, EnterNowFn};
use super::waiters::{Request, WaiterId};
use super::{ClassKey, Queueable};
use crate::error::AcquireError;
use crate::wait::{Polled, report_clock};

/// The future of [`InClass::acquire`](super::InClass::acquire).
///
/// # Panics
///
/// Panics if it is polled again after it has completed, or if the throttle panicked when it was
/// polled for this waiter.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<T: Queueable, K: ClassKey> {
    /// `None` once the future has completed.
    handle: Option<Arc<Handle<T, K>>>,
    request: Request<EnterFn<T>>,
    /// How the throttle is entered without a wait.
    enter_now: EnterNowFn<T>,
    /// The slot in the queue, if a poll had to wait.
    id: Option<WaiterId>,
}

impl<T: Queueable, K: ClassKey> Acquire<T, K> {
    #[inline]
    pub(super) fn new(
        handle: Arc<Handle<T, K>>,
        request: Request<EnterFn<T>>,
        enter_now: EnterNowFn<T>,
    ) -> Self {
        Self {
            handle: Some(handle),
            request,
            enter_now,
            id: None,
        }
    }

    /// Polls in the queue: joins it, or checks the slot of the waiter.
    #[inline(never)]
    fn poll_queue(
        &mut self,
        handle: Arc<Handle<T, K>>,
        context: &Context<'_>,
    ) -> Polled<FairPermit<T, K>> {
        // If a waker panics when it is cloned, `drop` must still find the queue.
        let handle = self.handle.insert(handle);
        let waker = context.waker();
        let polled = match self.id {
            Some(id) => handle.queue.look(id, waker, None),
            None => {
                let mut fresh = Some(waker.clone());
                let joined = handle.queue.join(&handle.entry, self.request, &mut fresh);
                let (id, other) = match joined {
                    Ok(joined) => joined,
                    Err(error) => {
                        self.handle = None;
                        return Poll::Ready(Err(error));
                    }
                };
                self.id = Some(id);
                if let Some(entry) = other {
                    let queue = Arc::clone(&handle.queue);
                    *handle = Arc::new(Handle { queue, entry });
                }
                match fresh {
                    // The waiter has it already.
                    None => Poll::Pending,
                    fresh => handle.queue.look(id, waker, fresh),
                }
            }
        };
        if polled.is_pending() && handle.queue.has_own_clock {
            report_clock(&handle.queue.clock);
        }
        let served = ready!(polled);
        self.id = None;
        let handle = self.handle.take().expect("it was there");
        Poll::Ready(match served {
            Served::Admitted(inner, charge) => Ok(FairPermit {
                hold: Hold::new(handle, charge),
                inner,
            }),
            Served::Refused(error) => Err(error),
            Served::Panicked(payload) => resume_unwind(payload),
        })
    }

    #[inline(never)]
    fn leave(&mut self) {
        if let (Some(id), Some(handle)) = (self.id.take(), &self.handle) {
            handle.queue.leave(id, &handle.entry, self.request.cost);
        }
    }
}

impl<T: Queueable, K: ClassKey> Future for Acquire<T, K> {
    type Output = Result<FairPermit<T, K>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(mut handle) = self.handle.take() else {
            panic!("polled again after it was ready");
        };
        if self.id.is_none() {
            handle = match Hold::try_new(handle)? {
                Err(handle) => handle,
                Ok(hold) => match (self.enter_now)(hold.throttle(), self.request.cost) {
                    Some(inner) => return Poll::Ready(Ok(FairPermit { hold, inner })),
                    None => hold.release(),
                },
            };
        }
        self.poll_queue(handle, context)
    }
}

impl<T: Queueable, K: ClassKey> Drop for Acquire<T, K> {
    #[inline]
    fn drop(&mut self) {
        if self.id.is_some() {
            self.leave();
        }
    }
}

// No field is ever pinned.
impl<T: Queueable, K: ClassKey> Unpin for Acquire<T, K> {}

impl<T: Queueable, K: ClassKey> fmt::Debug for Acquire<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("cost", &self.request.cost)
            .field("queued", &self.id.is_some())
            .finish_non_exhaustive()
    }
}
