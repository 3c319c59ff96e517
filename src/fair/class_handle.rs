//! [`ClassHandle`]: the throttle of one class.

use std::fmt;
use std::sync::Arc;

use super::acquire::{Acquire, FairPermit, Hold};
use super::driver::Shared;
use super::schedule::{Request, Schedule};
use super::table::Entry;
use super::{ClassKey, Queueable};
use crate::error::{AcquireError, ErrorKind};
use crate::throttle::{Cost, Throttle, TryThrottle, Weighted};
use crate::wait::Waiting;

/// A class of callers of a [`FairQueue`](super::FairQueue): a throttle whose waiters are served as
/// the settings of the class say. Created by [`FairQueue::class`](super::FairQueue::class).
///
/// Clones are the same class. A handle that is kept saves looking the class up.
///
/// # Cancel safety
///
/// A waiter that is dropped leaves the queue. A permit that it was given and has not received goes
/// to the waiter that goes next, or is rolled back if there is none.
#[must_use = "a throttle does nothing until it is entered"]
pub struct ClassHandle<T: Queueable, K: ClassKey>(pub(super) Arc<QueueClass<T, K>>);

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
        if handle.queue.is_contended() {
            return Ok(false);
        }
        if handle.entry.try_hold() {
            return Ok(true);
        }
        if !handle.entry.is_detached() {
            return Ok(false);
        }
        Self::lock_and_attach(handle)?;
        Ok(handle.entry.try_hold())
    }

    #[cold]
    fn lock_and_attach(handle: &mut Arc<Self>) -> Result<(), AcquireError> {
        let queue = Arc::clone(&handle.queue);
        let mut locked = queue.lock();
        let forgotten = Self::attach(handle, &mut locked.schedule);
        drop(locked);
        forgotten.map(drop)
    }

    /// Ensures that the class is in the table. The handle is replaced if another entry has its key there.
    /// Returns what is to be dropped after the lock.
    pub(super) fn attach(
        handle: &mut Arc<Self>,
        schedule: &mut Schedule<T, K>,
    ) -> Result<Option<Arc<Entry<K>>>, AcquireError> {
        let mut entry = Arc::clone(&handle.entry);
        let unused = schedule.attach(&mut entry)?;
        if !Arc::ptr_eq(&entry, &handle.entry) {
            let queue = Arc::clone(&handle.queue);
            *handle = Arc::new(Self { queue, entry });
        }
        Ok(unused)
    }
}

/// The only calls that enter the throttle with a cost: whoever has only a `T: Queueable` needs them too.
impl<T: Throttle> Request<T> {
    #[inline]
    fn one() -> Self {
        Self {
            cost: 1,
            enter: |throttle, _, tick| match tick {
                Some(tick) => throttle.enter_as_of(tick),
                None => throttle.enter(),
            },
            enter_now: |throttle, _| throttle.enter_now(),
        }
    }

    #[inline]
    fn many(n: u64) -> Self
    where
        T: Weighted,
    {
        Self {
            cost: n,
            enter: |throttle, n, tick| match tick {
                Some(tick) => throttle.cost(n).enter_as_of(tick),
                None => throttle.cost(n).enter(),
            },
            enter_now: |throttle, n| throttle.cost(n).enter_now(),
        }
    }
}

impl<T: Queueable, K: ClassKey> ClassHandle<T, K> {
    /// Waits until the throttle admits a caller and the turn of this one has come.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// - The errors of the throttle; [`Closed`](ErrorKind::Closed) ends every wait.
    /// - [`QueueFull`](ErrorKind::QueueFull), when there is no room for one more waiter or one more
    ///   class; or the class serves [the newest first](super::Class::adaptive_lifo), and a newcomer has
    ///   taken the place of this waiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Semaphore;
    /// use tollgate::fair::FairQueue;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = Arc::new(Semaphore::new(8));
    /// let queue = FairQueue::new(Arc::clone(&semaphore));
    /// let permit = queue.class("alice").acquire().await?;
    /// assert_eq!(semaphore.available_permits(), 7);
    /// # drop(permit);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire(&self) -> Waiting<Acquire<T, K>> {
        self.enter_with(Request::one())
    }

    /// Enters without waiting, or fails.
    ///
    /// # Errors
    ///
    /// - The errors of the throttle.
    /// - [`NoPermits`](ErrorKind::NoPermits), when the throttle has none, a waiter of any class goes
    ///   first, also one of lower priority, or the class holds its maximum.
    /// - [`QueueFull`](ErrorKind::QueueFull), when there is no room for one more class.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ErrorKind, Semaphore};
    /// use tollgate::fair::{Class, FairQueue};
    ///
    /// let semaphore = Arc::new(Semaphore::new(8));
    /// let queue = FairQueue::new(semaphore).classes(|_| Class::new().max_concurrency(1));
    /// let permit = queue.class("alice").try_acquire()?;
    /// let refused = queue.class("alice").try_acquire();
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::NoPermits);
    /// assert!(queue.class("bob").try_acquire().is_ok());
    /// # drop(permit);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<FairPermit<T, K>, AcquireError>
    where
        T: TryThrottle,
    {
        self.try_with(T::try_enter)
    }

    /// Waits for `n` units of the throttle, all at once. With
    /// [`ByCost`](super::Share::ByCost) the class is charged `n`.
    ///
    /// A call for 0 units waits for its turn like any other, and its class is charged nothing. What an
    /// entry is [settled](Weighted::settle) for changes no charge.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// Panics if the throttle cannot count `n`, as [`Weighted::cost`] does.
    #[inline]
    pub fn acquire_many(&self, n: u64) -> Waiting<Acquire<T, K>>
    where
        T: Weighted,
    {
        self.enter_with(Request::many(n))
    }

    /// Takes `n` units without waiting, or nothing.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    ///
    /// # Panics
    ///
    /// Panics if the throttle cannot count `n`.
    pub fn try_acquire_many(&self, n: u64) -> Result<FairPermit<T, K>, AcquireError>
    where
        T: Weighted<Many: TryThrottle>,
    {
        self.try_with(|throttle| throttle.cost(n).try_enter())
    }

    /// Returns this class as a [`Throttle`] whose entries take `n` units each, all at once, for
    /// [`all`](crate::all) and adapters, which cannot pass a cost.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::fair::{FairQueue, Share};
    /// use tollgate::{Clock, Quota, RateLimiter, Semaphore, all};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let bytes = RateLimiter::new(Quota::per_second(1000).burst(1000)).clock(Clock::manual());
    /// let (slots, bytes) = (Semaphore::new(8), Arc::new(bytes));
    /// let queue = FairQueue::new(Arc::clone(&bytes)).share(Share::ByCost);
    /// let (_slot, _charge) = all((&slots, queue.class("alice").cost(600))).acquire().await?;
    /// assert_eq!(bytes.available(), 400);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn cost(&self, n: u64) -> Cost<Self>
    where
        T: Weighted,
    {
        Cost::new(self.clone(), n)
    }

    /// Returns the throttle of the queue.
    pub fn throttle(&self) -> &T {
        &self.0.queue.throttle
    }

    /// Returns the key of the class.
    pub fn key(&self) -> &K {
        &self.0.entry.key
    }

    #[inline]
    fn enter_with(&self, request: Request<T>) -> Waiting<Acquire<T, K>> {
        Waiting::new(Acquire::new(Arc::clone(&self.0), request))
    }

    #[inline]
    fn try_with(
        &self,
        try_enter: impl FnOnce(&T) -> Result<T::Permit, AcquireError>,
    ) -> Result<FairPermit<T, K>, AcquireError> {
        let mut handle = Arc::clone(&self.0);
        if !QueueClass::try_hold(&mut handle)? {
            return Err(AcquireError::new(ErrorKind::NoPermits));
        }
        let hold = Hold(handle);
        let inner = try_enter(&hold.0.queue.throttle)?;
        Ok(FairPermit { hold, inner })
    }

    #[inline]
    pub(super) fn enter_now_with(
        &self,
        enter: impl FnOnce(&T) -> Option<T::Permit>,
    ) -> Option<FairPermit<T, K>> {
        let refused = AcquireError::new(ErrorKind::NoPermits);
        self.try_with(|throttle| enter(throttle).ok_or(refused))
            .ok()
    }
}

impl<T: Queueable, K: ClassKey> Clone for ClassHandle<T, K> {
    #[inline]
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Queueable, K: ClassKey + fmt::Debug> fmt::Debug for ClassHandle<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClassHandle").field(self.key()).finish()
    }
}
