//! [`Acquire`], the future of a class: at first only a request, later perhaps a waiter in the queue; and
//! [`FairPermit`], with which it ends.
//!
//! 1. The future is `Unpin` and small: the waiter is stored in the queue, and only the queue's entrant
//!    waits for the throttle.
//! 2. A permit is counted by its class until it is dropped: the count goes first and the inner permit
//!    second. When the throttle then wakes the queue, the class that returned the permit already counts as
//!    holding one less, and so may be the one that gets it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::class_handle::QueueClass;
use super::schedule::{Request, WaiterId};
use super::{ClassKey, Queueable};
use crate::error::AcquireError;
use crate::wait::{Polled, report_clock};
use crate::wait_queue::WakeList;

/// The future of [`ClassHandle::acquire`](super::ClassHandle::acquire).
///
/// # Panics
///
/// Panics if it is polled again after it has completed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<T: Queueable, K: ClassKey> {
    /// `None` once the future has completed.
    handle: Option<Arc<QueueClass<T, K>>>,
    request: Request<T>,
    /// The waiter in the queue, if a poll had to wait.
    id: Option<WaiterId>,
}

impl<T: Queueable, K: ClassKey> Acquire<T, K> {
    #[inline]
    pub(super) fn new(handle: Arc<QueueClass<T, K>>, request: Request<T>) -> Self {
        Self {
            handle: Some(handle),
            request,
            id: None,
        }
    }

    /// Joins the queue, unless this is a waiter, and looks what it was given.
    #[inline(never)]
    fn poll_queue(
        &mut self,
        handle: Arc<QueueClass<T, K>>,
        context: &Context<'_>,
    ) -> Polled<FairPermit<T, K>> {
        // If a waker panics when it is cloned, `drop` must still find the queue.
        let handle = self.handle.insert(handle);
        let fresh = context.waker().clone();
        let id = match self.id {
            Some(id) => id,
            None => match join(handle, self.request) {
                Ok(id) => *self.id.insert(id),
                Err(error) => {
                    self.handle = None;
                    return Poll::Ready(Err(error));
                }
            },
        };
        let queue = &handle.queue;
        let mut locked = queue.lock();
        if locked.needs_drive() {
            drop(locked);
            queue.drive();
            locked = queue.lock();
        }
        let looked = locked.schedule.look(id, fresh);
        let yields = looked.is_err() && locked.needs_drive();
        drop(locked);
        match looked {
            Err(_unused) => {
                if yields {
                    context.waker().wake_by_ref();
                }
                if queue.has_own_clock {
                    report_clock(&queue.clock);
                }
                Poll::Pending
            }
            Ok(given) => {
                self.id = None;
                let handle = self.handle.take().expect("it was there");
                Poll::Ready(given.map(|inner| FairPermit {
                    hold: Hold(handle),
                    inner,
                }))
            }
        }
    }

    /// Gives up the place in the queue, or passes on what the waiter was given.
    #[inline(never)]
    fn leave(&mut self) {
        let (Some(id), Some(handle)) = (self.id.take(), &self.handle) else {
            return;
        };
        let QueueClass { queue, entry } = &**handle;
        let (mut unused, mut wakes) = (None, WakeList::new());
        let mut locked = queue.lock();
        match locked.schedule.collect(id) {
            None => unused = locked.schedule.leave(id),
            Some(Err(_)) => {}
            Some(permit) => {
                entry.release();
                locked.schedule.released(entry);
                locked = queue.hand_over(locked, self.request.cost, permit, &mut wakes);
            }
        }
        queue.unlock(locked, wakes);
        drop(unused);
    }
}

/// Adds a waiter.
fn join<T: Queueable, K: ClassKey>(
    handle: &mut Arc<QueueClass<T, K>>,
    request: Request<T>,
) -> Result<WaiterId, AcquireError> {
    let queue = Arc::clone(&handle.queue);
    let ticks = [
        queue.throttle.tick(None).unwrap_or_default(),
        queue.clock.now(),
    ];
    let mut wakes = WakeList::new();
    let _forgotten;
    let mut locked = queue.lock();
    _forgotten = QueueClass::attach(handle, &mut locked.schedule)?;
    let schedule = &mut locked.schedule;
    let joined = schedule.join(&handle.entry, request, ticks, &mut wakes);
    drop(locked);
    wakes.wake_all();
    joined
}

impl<T: Queueable, K: ClassKey> Future for Acquire<T, K> {
    type Output = Result<FairPermit<T, K>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(mut handle) = self.handle.take() else {
            panic!("polled again after it was ready");
        };
        if self.id.is_none() && QueueClass::try_hold(&mut handle)? {
            let hold = Hold(handle);
            match (self.request.enter_now)(&hold.0.queue.throttle, self.request.cost) {
                Some(inner) => return Poll::Ready(Ok(FairPermit { hold, inner })),
                None => handle = Arc::clone(&hold.0),
            }
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

/// A permit of a class of a [`FairQueue`](super::FairQueue). It derefs to the inner permit.
///
/// Dropping it lowers the count of its class, and then drops the inner permit.
///
/// # Examples
///
/// The permit of an adaptive limit also says how its call has ended. The class does that with
/// [`learn`](crate::throttle::Adaptive::learn), and the inner permit with its own methods:
///
/// ```
/// use std::sync::Arc;
/// use tollgate::adaptive::{AdaptiveSemaphore, Feedback};
/// use tollgate::fair::FairQueue;
/// use tollgate::throttle::Adaptive;
///
/// let backend = Arc::new(AdaptiveSemaphore::default());
/// let class = FairQueue::new(Arc::clone(&backend)).class("acme");
///
/// let mut permit = class.try_acquire()?;
/// class.learn(&mut permit, Feedback::OVERLOADED);
/// drop(permit);
///
/// let permit = class.try_acquire()?;
/// permit.into_inner().overloaded();
///
/// assert_eq!(backend.snapshot().window.overloaded(), 2);
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[must_use = "a permit limits nothing once it is dropped: bind it, as in `let _permit = ..`"]
pub struct FairPermit<T: Queueable, K: ClassKey> {
    // Dropped first.
    pub(super) hold: Hold<T, K>,
    pub(super) inner: T::Permit,
}

/// The count of a permit by its class.
pub(super) struct Hold<T: Queueable, K: ClassKey>(pub(super) Arc<QueueClass<T, K>>);

impl<T: Queueable, K: ClassKey> Drop for Hold<T, K> {
    #[inline]
    fn drop(&mut self) {
        if self.0.entry.release() {
            self.0.queue.released(&self.0.entry);
        }
    }
}

impl<T: Queueable, K: ClassKey> FairPermit<T, K> {
    /// Returns the inner permit, for methods that take it by value. Its class counts it as returned
    /// now.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Pool;
    /// use tollgate::fair::FairQueue;
    ///
    /// let pool = Arc::new(Pool::with_factory(1, || "a connection"));
    /// let queue = FairQueue::new(Arc::clone(&pool));
    /// let connection = queue.class("reports").try_acquire()?;
    /// connection.into_inner().discard();
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn into_inner(self) -> T::Permit {
        let Self { hold, inner } = self;
        drop(hold);
        inner
    }
}

impl<T: Queueable, K: ClassKey> Deref for FairPermit<T, K> {
    type Target = T::Permit;

    #[inline]
    fn deref(&self) -> &T::Permit {
        &self.inner
    }
}

impl<T: Queueable, K: ClassKey> DerefMut for FairPermit<T, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T::Permit {
        &mut self.inner
    }
}

impl<T: Queueable<Permit: fmt::Debug>, K: ClassKey> fmt::Debug for FairPermit<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FairPermit").field(&self.inner).finish()
    }
}
