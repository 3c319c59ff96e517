//! [`ClassHandle`]: a class of a fair queue as a throttle, and with a cost.

use std::fmt;
use std::sync::Arc;

use super::acquire::{Acquire, FairPermit, QueueClass};
use super::{ClassKey, Queueable};
use crate::error::{AcquireError, ErrorKind};
use crate::feedback::Feedback;
use crate::status::LimitStatus;
use crate::throttle::{Adaptive, Cost, Inspect, Polling, Weighted};
use crate::wait::Waiting;
use crate::{Throttle, TryThrottle};

/// A class of callers of a [`FairQueue`](super::FairQueue): a throttle that serves its waiters
/// according to the settings of the class. Created by
/// [`FairQueue::class`](super::FairQueue::class).
///
/// Clones are the same class. Keep a handle to avoid looking the class up each time.
///
/// # Cancel safety
///
/// A dropped waiter leaves the queue. If the waiter was given a permit that it has not received,
/// the permit goes to the next waiter, or is rolled back if there is none.
#[must_use = "a throttle does nothing until it is entered"]
pub struct ClassHandle<T: Queueable, K: ClassKey>(pub(super) Arc<QueueClass<T, K>>);

impl<T: Queueable, K: ClassKey> ClassHandle<T, K> {
    /// Waits until the throttle admits a caller and it is this caller's turn.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// - The errors of the throttle; [`Closed`](ErrorKind::Closed) ends every wait.
    /// - [`QueueFull`](ErrorKind::QueueFull), when there is no room for one more waiter or one more
    ///   class; or when the class serves [the newest first](super::Class::adaptive_lifo), and a
    ///   newcomer has taken the place of this waiter.
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
        Waiting::new(Acquire::one(Arc::clone(&self.0)))
    }

    /// Enters without waiting, or fails.
    ///
    /// # Errors
    ///
    /// - The errors of the throttle.
    /// - [`NoPermits`](ErrorKind::NoPermits), when the throttle has no permit, when a waiter of any
    ///   class goes first, even one of lower priority, or when the class holds its maximum.
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
        let mut permit = self.try_hold()?;
        permit.inner = Some(self.throttle().try_enter()?);
        Ok(permit)
    }

    /// Waits for `n` units of the throttle, all at once. With
    /// [`ByCost`](super::Share::ByCost) the class is charged `n`.
    ///
    /// A call for 0 units waits for its turn like any other, and its class is charged nothing.
    /// [Settling](Weighted::settle) an entry does not change the charge of its class.
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
    /// Panics if the throttle cannot count `n`, like [`Weighted::cost`].
    #[inline]
    pub fn acquire_many(&self, n: u64) -> Waiting<Acquire<T, K>>
    where
        T: Weighted,
    {
        Waiting::new(Acquire::many(Arc::clone(&self.0), n))
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
        let mut permit = self.try_hold()?;
        permit.inner = Some(self.throttle().cost(n).try_enter()?);
        Ok(permit)
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
    /// assert_eq!(bytes.snapshot().available, 400);
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

    /// Counts a permit before the throttle has granted it.
    #[inline]
    fn try_hold(&self) -> Result<FairPermit<T, K>, AcquireError> {
        let mut handle = Arc::clone(&self.0);
        if QueueClass::try_hold(&mut handle)? {
            Ok(FairPermit::new(handle, None))
        } else {
            Err(AcquireError::new(ErrorKind::NoPermits))
        }
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

impl<T: Queueable, K: ClassKey> Throttle for ClassHandle<T, K> {
    type Permit = FairPermit<T, K>;
    type Enter = Acquire<T, K>;

    #[inline]
    fn enter(&self) -> Waiting<Acquire<T, K>> {
        self.acquire()
    }

    /// Rolls the entry back in the throttle. The share of the class keeps the cost of the entry.
    fn rollback(&self, permit: FairPermit<T, K>) {
        self.throttle().rollback(permit.into_inner());
    }

    #[inline]
    fn enter_now(&self) -> Option<FairPermit<T, K>> {
        let mut permit = self.try_hold().ok()?;
        permit.inner = Some(self.throttle().enter_now()?);
        Some(permit)
    }

    fn polling(&self) -> Polling {
        self.throttle().polling()
    }
}

impl<T: Queueable + TryThrottle, K: ClassKey> TryThrottle for ClassHandle<T, K> {
    #[inline]
    fn try_enter(&self) -> Result<FairPermit<T, K>, AcquireError> {
        self.try_acquire()
    }
}

impl<T: Queueable + Weighted, K: ClassKey> Throttle for Cost<ClassHandle<T, K>> {
    type Permit = FairPermit<T, K>;
    type Enter = Acquire<T, K>;

    #[inline]
    fn enter(&self) -> Waiting<Acquire<T, K>> {
        self.throttle.acquire_many(self.cost)
    }

    #[inline]
    fn enter_now(&self) -> Option<FairPermit<T, K>> {
        let mut permit = self.throttle.try_hold().ok()?;
        permit.inner = Some(self.throttle.throttle().cost(self.cost).enter_now()?);
        Some(permit)
    }

    crate::forward!(Throttle, self => self.throttle, except enter, enter_now);
}

impl<T, K> TryThrottle for Cost<ClassHandle<T, K>>
where
    T: Queueable + Weighted<Many: TryThrottle>,
    K: ClassKey,
{
    #[inline]
    fn try_enter(&self) -> Result<FairPermit<T, K>, AcquireError> {
        self.throttle.try_acquire_many(self.cost)
    }
}

impl<T: Queueable + Weighted, K: ClassKey> Weighted for ClassHandle<T, K> {
    type Many = Cost<Self>;

    #[inline]
    fn cost(&self, n: u64) -> Cost<Self> {
        Cost::new(self.clone(), n)
    }

    fn settle(&self, permit: FairPermit<T, K>, used: u64) {
        self.throttle().settle(permit.into_inner(), used);
    }

    crate::forward!(Weighted, self => *self.throttle(), except cost, settle);
}

impl<T: Queueable + Adaptive, K: ClassKey> Adaptive for ClassHandle<T, K> {
    fn learn(&self, permit: &mut FairPermit<T, K>, feedback: Feedback) {
        self.throttle().learn(permit, feedback);
    }
}

impl<T: Queueable + Inspect, K: ClassKey> Inspect for ClassHandle<T, K> {
    const LIMITS: usize = T::LIMITS;

    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        let inner = permit.map(|permit| &**permit);
        self.throttle().inspect(inner, each);
    }
}
