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

use super::driver::Shared;
use super::entry::Entry;
use super::schedule::{Enter, Waiter, WaiterId};
use super::{ClassKey, Queueable};
use crate::error::AcquireError;
use crate::panic::contain_panic;
use crate::sync::Ordering;
use crate::throttle::{Throttle, Weighted};
use crate::wait::{Polled, report_clock};
use crate::wait_queue::WakeList;

/// A queue and a class of it.
pub(super) struct QueueClass<T: Queueable, K: ClassKey> {
    pub(super) queue: Arc<Shared<T, K>>,
    pub(super) entry: Arc<Entry<K>>,
}

impl<T: Queueable, K: ClassKey> QueueClass<T, K> {
    /// Counts a permit without the lock, unless a waiter would have to go first, or the class holds its
    /// maximum.
    #[inline]
    pub(super) fn try_hold(handle: &mut Arc<Self>) -> Result<bool, AcquireError> {
        // Relaxed: a newcomer that misses a change meets the throttle's own queue.
        if handle.queue.contended.load(Ordering::Relaxed) != 0 {
            return Ok(false);
        }
        if handle.entry.try_hold() {
            return Ok(true);
        }
        if handle.entry.is_detached() {
            Self::attach(handle)?;
        }
        Ok(handle.entry.try_hold())
    }

    /// Puts the class into the table. The handle is replaced if another entry has its key there.
    #[cold]
    fn attach(handle: &mut Arc<Self>) -> Result<(), AcquireError> {
        // Entries that are not used any more are dropped after the lock.
        let old = Arc::clone(handle);
        let mut locked = old.queue.lock();
        let attached = locked.schedule.find(old.entry.hash, &old.entry.key);
        let forgotten = match attached.map(Arc::clone) {
            None => locked.schedule.add(&old.entry),
            Some(entry) => {
                let queue = Arc::clone(&old.queue);
                *handle = Arc::new(Self { queue, entry });
                Ok(None)
            }
        };
        drop(locked);
        forgotten.map(drop)
    }
}

/// The future of [`ClassHandle::acquire`](super::ClassHandle::acquire).
///
/// # Panics
///
/// Panics if it is polled again after it has completed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<T: Queueable, K: ClassKey> {
    /// `None` once the future has completed.
    handle: Option<Arc<QueueClass<T, K>>>,
    cost: u64,
    enter: Enter<T>,
    /// Enters for a cost if that needs no wait.
    enter_now: fn(&T, u64) -> Option<T::Permit>,
    /// The waiter in the queue, if a poll had to wait.
    id: Option<WaiterId>,
}

impl<T: Queueable, K: ClassKey> Acquire<T, K> {
    #[inline]
    pub(super) fn one(handle: Arc<QueueClass<T, K>>) -> Self {
        Self {
            handle: Some(handle),
            cost: 1,
            enter: |throttle, _, tick| match tick {
                Some(tick) => throttle.enter_as_of(tick),
                None => throttle.enter(),
            },
            enter_now: |throttle, _| throttle.enter_now(),
            id: None,
        }
    }

    #[inline]
    pub(super) fn many(handle: Arc<QueueClass<T, K>>, n: u64) -> Self
    where
        T: Weighted,
    {
        Self {
            handle: Some(handle),
            cost: n,
            enter: |throttle, n, tick| match tick {
                Some(tick) => throttle.cost(n).enter_as_of(tick),
                None => throttle.cost(n).enter(),
            },
            enter_now: |throttle, n| throttle.cost(n).enter_now(),
            id: None,
        }
    }

    /// Joins the queue, unless this is a waiter, and looks what it was given.
    #[inline(never)]
    fn poll_queue(
        &mut self,
        mut handle: Arc<QueueClass<T, K>>,
        context: &Context<'_>,
    ) -> Polled<FairPermit<T, K>> {
        let id = match self.id {
            Some(id) => id,
            None => join(&mut handle, self.cost, self.enter)?,
        };
        // If a waker panics when it is cloned, `drop` must still find the waiter.
        self.id = Some(id);
        let handle = self.handle.insert(handle);
        let mut waker = Some(context.waker().clone());
        let queue = &handle.queue;
        let mut locked = queue.lock();
        if locked.needs_drive() {
            drop(locked);
            queue.drive();
            locked = queue.lock();
        }
        if let Some(waiter) = locked.schedule.waiter(id) {
            // The old one is dropped after the lock.
            std::mem::swap(&mut waiter.waker, &mut waker);
            let yields = locked.needs_drive();
            drop(locked);
            if yields {
                context.waker().wake_by_ref();
            }
            if queue.has_own_clock {
                report_clock(&queue.clock);
            }
            return Poll::Pending;
        }
        let given = locked.schedule.collect(id);
        drop(locked);
        self.id = None;
        let handle = self.handle.take().expect("it was there");
        let given = given.expect("it was served");
        Poll::Ready(given.map(|inner| FairPermit {
            hold: Hold(handle),
            inner,
        }))
    }

    /// Gives up the place in the queue, or passes on what the waiter was given.
    #[inline(never)]
    fn leave(&mut self) {
        let (Some(id), Some(handle)) = (self.id.take(), &self.handle) else {
            return;
        };
        let QueueClass { queue, entry } = &**handle;
        let (mut waker, mut unused, mut wakes) = (None, None, WakeList::new());
        let mut locked = queue.lock();
        match locked.schedule.collect(id) {
            None => waker = locked.schedule.remove(id),
            Some(Err(_)) => {}
            Some(permit) => {
                entry.release();
                locked.schedule.released(entry);
                unused = locked.schedule.hand_over(self.cost, permit, &mut wakes);
            }
        }
        queue.unlock(locked, wakes);
        drop(waker);
        if let Some(permit) = unused {
            contain_panic(|| queue.throttle.rollback(permit));
        }
    }
}

/// Adds a waiter.
fn join<T: Queueable, K: ClassKey>(
    handle: &mut Arc<QueueClass<T, K>>,
    cost: u64,
    enter: Enter<T>,
) -> Result<WaiterId, AcquireError> {
    let queue = Arc::clone(&handle.queue);
    let waiter = Waiter {
        cost,
        enter,
        joined: queue.throttle.tick(None).unwrap_or_default(),
        since: queue.clock.now(),
        waker: None,
    };
    let mut wakes = WakeList::new();
    let mut locked = queue.lock();
    // A class that nobody uses yet may be forgotten again at once.
    while handle.entry.is_detached() {
        drop(locked);
        QueueClass::attach(handle)?;
        locked = queue.lock();
    }
    let joined = locked.schedule.join(&handle.entry, waiter, &mut wakes);
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
            match (self.enter_now)(&hold.0.queue.throttle, self.cost) {
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
            .field("cost", &self.cost)
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
