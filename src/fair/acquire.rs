//! [`Acquire`], the future of a class: at first only a request, later perhaps a waiter in the
//! queue; and [`FairPermit`], its output.
//!
//! 1. The future is `Unpin` and small: the waiter is stored in the queue, and only the queue's entrant
//!    waits for the throttle.
//! 2. A class counts a permit until it is dropped: the drop lowers the count first and drops the
//!    inner permit second. So when the next waiter is chosen, the class that returned the permit
//!    already holds one less, and may get the permit itself.
//! 3. While waiters can be served, the inner permit of a semaphore is not dropped but
//!    [handed on](Shared::released), if nobody else waits for it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::driver::{Locked, Shared};
use super::entry::Entry;
use super::schedule::{Elsewhere, Enter, EnterResult, EntryRequest, Waiter, WaiterId};
use super::{ClassKey, Queueable};
use crate::Throttle;
use crate::debug::debug_as;
use crate::error::AcquireError;
use crate::panic::contain_panic;
use crate::sync::{AtomicUsize, MutexGuard, Ordering};
use crate::throttle::Weighted;
use crate::time::RuntimeId;
use crate::wait::{Polled, is_entrant, report_clock};
use crate::wait_queue::WakeList;

/// No permit without an inner one reaches a caller.
const FULL: &str = "it was entered for";

/// A queue and a class of it.
pub(super) struct QueueClass<T: Queueable, K: ClassKey> {
    pub(super) queue: Arc<Shared<T, K>>,
    pub(super) entry: Arc<Entry<K>>,
    /// It is not 0 while a waiter of the queue can be served.
    contended: Arc<AtomicUsize>,
}

impl<T: Queueable, K: ClassKey> QueueClass<T, K> {
    pub(super) fn new(queue: Arc<Shared<T, K>>, entry: Arc<Entry<K>>) -> Self {
        let contended = Arc::clone(&queue.contended);
        Self {
            queue,
            entry,
            contended,
        }
    }

    /// Returns whether a waiter can be served.
    #[inline]
    fn is_contended(&self) -> bool {
        // Relaxed: a caller that misses a change meets the throttle's own queue.
        self.contended.load(Ordering::Relaxed) != 0
    }

    /// Counts a permit without the lock, and returns whether it did. It does not if a waiter has to
    /// go first, or if the class holds its maximum.
    #[inline]
    pub(super) fn try_hold(handle: &mut Arc<Self>) -> Result<bool, AcquireError> {
        let try_hold = |this: &Self| !this.is_contended() && this.entry.try_hold();
        let mut held = try_hold(handle);
        if !held && handle.entry.is_detached() && !handle.is_contended() {
            *handle = Self::attach(handle)?;
            held = try_hold(handle);
        }
        Ok(held)
    }

    /// Enters if no wait is needed. The entrant of another queue does not in front of rates, because it has to
    /// [report](crate::wait) its charge.
    #[inline(always)]
    fn enter_now(
        handle: &mut Arc<Self>,
        enter: impl FnOnce(&T) -> Option<T::Permit>,
    ) -> Result<Option<T::Permit>, AcquireError> {
        if is_entrant() && handle.queue.has_rates() || !Self::try_hold(handle)? {
            return Ok(None);
        }
        let release = ReleaseOnDrop(handle);
        let inner = enter(&handle.queue.throttle);
        if inner.is_some() {
            std::mem::forget(release);
        }
        Ok(inner)
    }

    /// Puts the class into the table. Returns another handle if another entry has its key there.
    #[cold]
    fn attach(handle: &Arc<Self>) -> Result<Arc<Self>, AcquireError> {
        let Self { queue, entry, .. } = &**handle;
        let mut locked = queue.lock();
        let attached = locked.schedule.find(entry.hash, &entry.key);
        match attached.map(Arc::clone) {
            None => {
                let forgotten = locked.schedule.add(entry);
                // A replaced entry is dropped after the lock.
                drop(locked);
                forgotten.map(drop)?;
                Ok(Arc::clone(handle))
            }
            Some(entry) => {
                drop(locked);
                Ok(Arc::new(Self::new(Arc::clone(queue), entry)))
            }
        }
    }
}

/// Releases the permit that a class has counted, unless it is forgotten because the permit arrived.
struct ReleaseOnDrop<'a, T: Queueable, K: ClassKey>(&'a Arc<QueueClass<T, K>>);

impl<T: Queueable, K: ClassKey> Drop for ReleaseOnDrop<'_, T, K> {
    fn drop(&mut self) {
        let QueueClass { queue, entry, .. } = &**self.0;
        if entry.release() {
            queue.released(entry, true, None);
        }
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
    /// The cost, and the methods that enter for it; `None` enters for 1.
    many: Option<(u64, &'static EnterMany<T>)>,
    /// The waiter in the queue, if a poll had to wait, and the runtime in which it was last polled.
    waiter: Option<(WaiterId, Option<RuntimeId>)>,
}

/// The class of a waiter, and the permit that the waiter has received.
type Received<T, K> = (Arc<QueueClass<T, K>>, <T as Throttle>::Permit);

/// The methods that enter a throttle for a cost.
struct EnterMany<T: Throttle> {
    enter: Enter<T>,
    /// Enters if no wait is needed.
    enter_now: fn(&T, u64) -> Option<T::Permit>,
}

impl<T: Queueable, K: ClassKey> Acquire<T, K> {
    #[inline]
    pub(super) fn one(handle: Arc<QueueClass<T, K>>) -> Self {
        Self {
            handle: Some(handle),
            many: None,
            waiter: None,
        }
    }

    #[inline]
    pub(super) fn many(handle: Arc<QueueClass<T, K>>, n: u64) -> Self
    where
        T: Weighted,
    {
        let many: &EnterMany<T> = &EnterMany {
            enter: |throttle, n| throttle.cost(n).enter(),
            enter_now: |throttle, n| throttle.cost(n).enter_now(),
        };
        Self {
            handle: Some(handle),
            many: Some((n, many)),
            waiter: None,
        }
    }

    fn cost(&self) -> u64 {
        self.many.map_or(1, |(n, _)| n)
    }

    /// Joins the queue, unless this is already a waiter, and collects its permit or error, if any.
    #[inline(never)]
    fn poll_queue(
        &mut self,
        handle: Arc<QueueClass<T, K>>,
        waker: &Waker,
    ) -> Polled<Received<T, K>> {
        // If a waker panics when it is cloned, `drop` must still find the waiter.
        let handle = self.handle.insert(handle);
        let result = match &mut self.waiter {
            Some((id, runtime)) => {
                let id = *id;
                let queue = &handle.queue;
                let (mut locked, mut wakes) = (queue.lock(), WakeList::new());
                // If a poll is wanted, it comes first. Otherwise the thread that has served this waiter has
                // chosen the next one.
                let mut result = None;
                if !locked.poll_wanted {
                    result = locked.schedule.collect(id);
                }
                if result.is_none() {
                    locked.record_poll(id, runtime);
                    // One poll drives once, so it serves only so many.
                    if locked.needs_drive() {
                        locked = queue.drive(locked, &mut wakes);
                    }
                    result = queue.collect(locked, &mut wakes, id, (None, waker));
                }
                result
            }
            None => join(handle, self.many, &mut self.waiter, waker),
        };
        let Some(result) = result else {
            if handle.queue.has_own_clock {
                report_clock(&handle.queue.clock);
            }
            return Poll::Pending;
        };
        self.waiter = None;
        let handle = self.handle.take().expect("it was there");
        Poll::Ready(result.map(|inner| (handle, inner)))
    }

    /// Gives up the place in the queue, or passes on the permit or error of the waiter.
    #[inline(never)]
    fn leave(&mut self) {
        let cost = self.cost();
        let (Some((id, runtime)), Some(handle)) = (self.waiter.take(), &self.handle) else {
            return;
        };
        let QueueClass { queue, entry, .. } = &**handle;
        let (mut waker, mut unused, mut wakes) = (None, None, WakeList::new());
        let mut locked = queue.lock();
        match locked.schedule.collect(id) {
            None => waker = locked.schedule.remove(id),
            Some(Err(_)) => {}
            Some(permit) => {
                entry.release();
                locked.schedule.released(entry);
                unused =
                    locked
                        .schedule
                        .hand_over(EntryRequest { cost, runtime }, permit, &mut wakes);
            }
        }
        queue.unlock(locked, &mut wakes);
        drop(waker);
        if let Some(permit) = unused {
            contain_panic(|| queue.throttle.rollback(permit));
        }
    }
}

/// Adds a waiter. Returns its permit or error if it is refused or served at once, or need not wait.
fn join<T: Queueable, K: ClassKey>(
    handle: &mut Arc<QueueClass<T, K>>,
    many: Option<(u64, &EnterMany<T>)>,
    joined_as: &mut Option<(WaiterId, Option<RuntimeId>)>,
    waker: &Waker,
) -> Option<EnterResult<T>> {
    let mut cost = 1;
    if let Some((n, many)) = many {
        let enter = |throttle: &T| (many.enter_now)(throttle, n);
        if let Some(entered) = QueueClass::enter_now(handle, enter).transpose() {
            return Some(entered);
        }
        handle.queue.enter_many.get_or_init(|| many.enter);
        cost = n;
    }
    let queue = Arc::clone(&handle.queue);
    // If there is no room, the waker is dropped after the lock.
    let mut unstored = Some(waker.clone());
    let since = queue.clock.now();
    let joined = || {
        queue
            .arrival()
            .unwrap_or_else(|| queue.tick_of_rates(since))
    };
    let (knew_rates, mut tick) = (queue.has_rates(), joined());
    let mut wakes = WakeList::new();
    let mut locked = queue.lock();
    // A class that is not in use yet may be forgotten again immediately.
    while handle.entry.is_detached() {
        drop(locked);
        match QueueClass::attach(handle) {
            Ok(attached) => *handle = attached,
            Err(full) => return Some(Err(full)),
        }
        locked = queue.lock();
    }
    if !knew_rates && queue.has_rates() {
        tick = joined();
    }
    let (runtime, joined) = (locked.current_runtime, tick);
    let is_elsewhere = runtime.is_some() || joined != since;
    let elsewhere = is_elsewhere.then_some(Elsewhere { runtime, joined });
    let waiter = || Waiter {
        cost,
        since,
        waker: unstored.take(),
    };
    let schedule = &mut locked.schedule;
    let id = match schedule.join(&handle.entry, waiter, elsewhere, &mut wakes) {
        Ok(id) => joined_as.insert((id, runtime)).0,
        Err(full) => return Some(Err(full)),
    };
    if !locked.needs_drive() {
        drop(locked);
        wakes.wake_all();
        return None;
    }
    // The drive may serve the waiter, and then need not wake it.
    let waiter = locked.schedule.waiter(id);
    unstored = waiter.and_then(|waiter| waiter.waker.take());
    if let Some(tick) = queue.arrival() {
        locked.continue_from(tick);
    }
    locked = queue.drive(locked, &mut wakes);
    queue.collect(locked, &mut wakes, id, (unstored, waker))
}

impl<T: Queueable, K: ClassKey> Shared<T, K> {
    /// Unlocks and wakes, after a drive. Returns the permit or error of a waiter, or stores its waker:
    /// the first, or a clone of the second.
    fn collect<'a>(
        &'a self,
        mut locked: MutexGuard<'a, Locked<T, K>>,
        wakes: &mut WakeList,
        id: WaiterId,
        (mut unstored, waker): (Option<Waker>, &Waker),
    ) -> Option<EnterResult<T>> {
        let result = loop {
            let Some(waiter) = locked.schedule.waiter(id) else {
                let result = locked.schedule.collect(id);
                break Some(result.expect("it was served"));
            };
            let stored = &mut waiter.waker;
            let is_stored = |stored: &Waker| stored.will_wake(waker);
            if stored.as_ref().is_some_and(is_stored) {
                break None;
            }
            if unstored.is_some() {
                // The old one is dropped after the lock.
                std::mem::swap(stored, &mut unstored);
                break None;
            }
            drop(locked);
            // Before the clone, which may panic.
            wakes.wake_all();
            unstored = Some(waker.clone());
            locked = self.lock();
        };
        let yields = result.is_none() && locked.needs_drive();
        drop(locked);
        wakes.wake_all();
        if yields {
            waker.wake_by_ref();
        }
        result
    }
}

impl<T: Queueable, K: ClassKey> Future for Acquire<T, K> {
    type Output = Result<FairPermit<T, K>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(mut handle) = self.handle.take() else {
            panic!("polled again after it was ready");
        };
        // Only a cost of 1 is decided here; a call for another one is when it joins.
        if self.waiter.is_none() && self.many.is_none() {
            let inner = QueueClass::enter_now(&mut handle, T::enter_now)?;
            if inner.is_some() {
                return Poll::Ready(Ok(FairPermit { handle, inner }));
            }
        }
        let outer = is_entrant().then(|| Arc::clone(&handle.queue));
        let polled = self.poll_queue(handle, context.waker());
        if let Some(queue) = outer {
            queue.report_charge();
        }
        // The permit is put together here, so the ready path does not copy it through the memory of this result.
        polled.map_ok(|(handle, inner)| {
            let inner = Some(inner);
            FairPermit { handle, inner }
        })
    }
}

impl<T: Queueable, K: ClassKey> Drop for Acquire<T, K> {
    #[inline]
    fn drop(&mut self) {
        // It is still there in a waiter, and in a future that was never polled.
        if self.handle.is_some() {
            self.leave();
        }
    }
}

// None of its fields is ever pinned.
impl<T: Queueable, K: ClassKey> Unpin for Acquire<T, K> {}

debug_as! {
    [T: Queueable, K: ClassKey] Acquire<T, K>, self
    => Acquire { cost: self.cost(), queued: self.waiter.is_some(), .. }
}

/// A permit of a class of a [`FairQueue`](super::FairQueue). It derefs to the inner permit.
///
/// Dropping it lowers the count of its class, and then drops the inner permit.
///
/// # Examples
///
/// The permit of an adaptive limit also reports the outcome of its call. Report it through the
/// class with [`learn`](crate::throttle::Adaptive::learn), or through the inner permit with its own
/// methods:
///
/// ```
/// use tollgate::fair::FairQueue;
/// use tollgate::throttle::{Adaptive, Feedback};
/// use tollgate_adaptive::{AdaptiveSemaphore, Shared};
///
/// let backend = Shared::from(AdaptiveSemaphore::default());
/// let class = FairQueue::new(backend.clone()).class("acme");
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
    handle: Arc<QueueClass<T, K>>,
    /// `None` before the throttle was entered, and after the permit was taken out.
    pub(super) inner: Option<T::Permit>,
}

impl<T: Queueable, K: ClassKey> Drop for FairPermit<T, K> {
    #[inline(always)]
    fn drop(&mut self) {
        let notice = self.handle.entry.release();
        if notice || self.handle.is_contended() {
            self.released(notice);
        }
    }
}

impl<T: Queueable, K: ClassKey> FairPermit<T, K> {
    /// Creates the permit of a class that has already counted it.
    #[inline]
    pub(super) fn new(handle: Arc<QueueClass<T, K>>, inner: Option<T::Permit>) -> Self {
        Self { handle, inner }
    }

    /// Notifies the queue, which may hand the inner permit on.
    #[inline(never)]
    fn released(&mut self, notice: bool) {
        let QueueClass { queue, entry, .. } = &*self.handle;
        if notice || queue.hands_on() {
            self.inner = queue.released(entry, notice, self.inner.take());
        }
    }

    /// Returns the inner permit, for methods that take it by value. The class counts it as returned
    /// from now on.
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
    #[expect(clippy::missing_panics_doc, reason = "it is full until here")]
    pub fn into_inner(mut self) -> T::Permit {
        self.inner.take().expect(FULL)
    }
}

impl<T: Queueable, K: ClassKey> Deref for FairPermit<T, K> {
    type Target = T::Permit;

    #[inline]
    fn deref(&self) -> &T::Permit {
        self.inner.as_ref().expect(FULL)
    }
}

impl<T: Queueable, K: ClassKey> DerefMut for FairPermit<T, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T::Permit {
        self.inner.as_mut().expect(FULL)
    }
}

impl<T: Queueable<Permit: fmt::Debug>, K: ClassKey> fmt::Debug for FairPermit<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FairPermit").field(&**self).finish()
    }
}
