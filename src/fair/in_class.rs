//! [`InClass`]: the throttle of one class.

use std::fmt;
use std::sync::Arc;

use super::acquire::Acquire;
use super::entry::Entry;
use super::permit::{FairPermit, Hold};
use super::shared::{EnterFn, EnterNowFn, Shared};
use super::waiters::Request;
use super::{ClassKey, Queueable};
use crate::adaptive::Feedback;
use crate::error::{AcquireError, ErrorKind};
use crate::limit_status::LimitStatus;
use crate::throttle::{Adaptive, Cost, Inspect, Throttle, TryThrottle, TryWeighted, Weighted};
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
pub struct InClass<T: Queueable, K: ClassKey>(pub(super) Arc<Handle<T, K>>);

/// A queue and a class of it.
pub(super) struct Handle<T: Queueable, K: ClassKey> {
    pub(super) queue: Arc<Shared<T, K>>,
    pub(super) entry: Arc<Entry<K>>,
}

impl<T: Queueable, K: ClassKey> Handle<T, K> {
    /// Returns a handle whose class is in the table.
    #[cold]
    pub(super) fn attached(self: Arc<Self>) -> Result<Arc<Self>, AcquireError> {
        let mut locked = self.queue.lock();
        let attached = locked.schedule.attach(&self.entry);
        drop(locked);
        match attached?.other {
            None => Ok(self),
            Some(entry) => {
                let queue = Arc::clone(&self.queue);
                Ok(Arc::new(Self { queue, entry }))
            }
        }
    }
}

impl<T: Queueable, K: ClassKey> InClass<T, K> {
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
    ///   class, or when a newcomer has taken the place of this one.
    /// - [`TimedOut`](ErrorKind::TimedOut), see
    ///   [`max_queue_time`](super::Class::max_queue_time).
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
        self.enter_with(
            1,
            |throttle, _, tick| match tick {
                Some(tick) => throttle.enter_as_of(tick),
                None => throttle.enter(),
            },
            |throttle, _| throttle.enter_now(),
        )
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
    /// A call for 0 units waits for its turn like any other. Its class is charged nothing, also if
    /// the entry is [settled](Weighted::settle) for more.
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
    /// Panics if the throttle cannot count `n`, as [`Weighted::enter_many`] does.
    #[inline]
    pub fn acquire_many(&self, n: u64) -> Waiting<Acquire<T, K>>
    where
        T: Weighted,
    {
        self.enter_with(
            n,
            |throttle, n, tick| match tick {
                Some(tick) => throttle.enter_many_as_of(n, tick),
                None => throttle.enter_many(n),
            },
            T::enter_many_now,
        )
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
        T: TryWeighted,
    {
        self.try_with(|throttle| throttle.try_enter_many(n))
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
    fn enter_with(
        &self,
        cost: u64,
        enter: EnterFn<T>,
        enter_now: EnterNowFn<T>,
    ) -> Waiting<Acquire<T, K>> {
        let handle = Arc::clone(&self.0);
        let request = Request { cost, enter };
        Waiting::new(Acquire::new(handle, request, enter_now))
    }

    #[inline]
    fn try_with(
        &self,
        try_enter: impl FnOnce(&T) -> Result<T::Permit, AcquireError>,
    ) -> Result<FairPermit<T, K>, AcquireError> {
        let Ok(hold) = Hold::try_new(Arc::clone(&self.0))? else {
            return Err(AcquireError::new(ErrorKind::NoPermits));
        };
        let inner = try_enter(hold.throttle())?;
        Ok(FairPermit { hold, inner })
    }

    #[inline]
    fn enter_now_with(
        &self,
        enter: impl FnOnce(&T) -> Option<T::Permit>,
    ) -> Option<FairPermit<T, K>> {
        let refused = AcquireError::new(ErrorKind::NoPermits);
        self.try_with(|throttle| enter(throttle).ok_or(refused))
            .ok()
    }
}

impl<T: Queueable, K: ClassKey> Throttle for InClass<T, K> {
    type Permit = FairPermit<T, K>;
    type Enter = Acquire<T, K>;

    #[inline]
    fn enter(&self) -> Waiting<Acquire<T, K>> {
        self.acquire()
    }

    /// Rolls the entry back in the throttle, and takes back what the class was charged.
    fn rollback(&self, permit: FairPermit<T, K>) {
        let FairPermit { hold, inner } = permit;
        hold.recharge(0);
        drop(hold);
        self.0.queue.throttle.rollback(inner);
    }

    fn spend_burst(&self, opening: u64) {
        self.0.queue.throttle.spend_burst(opening);
    }

    #[inline]
    fn enter_now(&self) -> Option<FairPermit<T, K>> {
        self.enter_now_with(T::enter_now)
    }

    fn wakes_unlocked(&self) -> bool {
        self.0.queue.throttle.wakes_unlocked()
    }
}

impl<T: Queueable + TryThrottle, K: ClassKey> TryThrottle for InClass<T, K> {
    #[inline]
    fn try_enter(&self) -> Result<FairPermit<T, K>, AcquireError> {
        self.try_acquire()
    }
}

impl<T: Queueable + Weighted, K: ClassKey> Weighted for InClass<T, K> {
    fn enter_many(&self, n: u64) -> Waiting<Acquire<T, K>> {
        self.acquire_many(n)
    }

    /// Settles the entry in the throttle, and charges the class what was used.
    fn settle(&self, permit: FairPermit<T, K>, used: u64) {
        let FairPermit { hold, inner } = permit;
        hold.recharge(used);
        drop(hold);
        self.0.queue.throttle.settle(inner, used);
    }

    fn max_units(&self) -> u64 {
        self.0.queue.throttle.max_units()
    }

    fn chunk_units(&self) -> u64 {
        self.0.queue.throttle.chunk_units()
    }

    #[inline]
    fn enter_many_now(&self, n: u64) -> Option<FairPermit<T, K>> {
        self.enter_now_with(|throttle| throttle.enter_many_now(n))
    }
}

impl<T: Queueable + TryWeighted, K: ClassKey> TryWeighted for InClass<T, K> {
    fn try_enter_many(&self, n: u64) -> Result<FairPermit<T, K>, AcquireError> {
        self.try_acquire_many(n)
    }
}

impl<T: Queueable + Adaptive, K: ClassKey> Adaptive for InClass<T, K> {
    fn learn(&self, permit: &mut FairPermit<T, K>, feedback: Feedback) {
        self.0.queue.throttle.learn(&mut permit.inner, feedback);
    }
}

impl<T: Queueable + Inspect, K: ClassKey> Inspect for InClass<T, K> {
    const LIMITS: usize = T::LIMITS;

    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(LimitStatus)) {
        let inner = permit.map(|permit| &permit.inner);
        self.0.queue.throttle.inspect(inner, each);
    }

    fn inspect_parts(
        &self,
        permit: Option<&Self::Permit>,
        each: &mut dyn FnMut(usize, LimitStatus),
    ) {
        let inner = permit.map(|permit| &permit.inner);
        self.0.queue.throttle.inspect_parts(inner, each);
    }
}

impl<T: Queueable, K: ClassKey> Clone for InClass<T, K> {
    #[inline]
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Queueable, K: ClassKey + fmt::Debug> fmt::Debug for InClass<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InClass").field(self.key()).finish()
    }
}
