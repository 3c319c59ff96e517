//! A semaphore, a rate limiter, a key of either or a class of a fair queue as a throttle with a fixed
//! cost per entry other than 1.

use std::sync::Arc;

use super::{Throttle, TryThrottle, TryWeighted, Weighted};
use crate::concurrency::Semaphore;
use crate::error::AcquireError;
use crate::rate::RateLimiter;
use crate::time::Tick;
use crate::wait::Waiting;

/// A semaphore or a rate limiter with a cost: each entry takes this many permits, or is charged
/// this much. It is for [`all`](super::all), streams and other generic code, which cannot pass a
/// cost.
///
/// `T` is a reference to one of these, or an `Arc`, or a [`Key`](crate::keyed::Key), or a
/// [class](crate::fair::InClass). Created by [`Semaphore::cost`], [`RateLimiter::cost`],
/// [`Key::cost`](crate::keyed::Key::cost) and [`InClass::cost`](crate::fair::InClass::cost), and, to
/// move into a task, by `cost_owned`.
///
/// # Examples
///
/// ```
/// use tollgate::{Semaphore, all};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let (slots, memory) = (Semaphore::new(8), Semaphore::new(1024));
/// let (_slot, megabytes) = all((&slots, memory.cost(64))).acquire().await?;
/// assert_eq!(megabytes.count(), 64);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a throttle does nothing until it is entered"]
pub struct Cost<T> {
    throttle: T,
    cost: u64,
}

/// Conversion to a throttle with a cost.
impl Semaphore {
    /// Returns this semaphore as a [`Throttle`] whose entries take `n` permits each, all at once.
    /// To move it into a task, see [`cost_owned`](Self::cost_owned).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Semaphore;
    ///
    /// let memory = Semaphore::new(1024);
    /// let permit = memory.cost(64).try_acquire()?;
    /// assert_eq!(memory.available_permits(), 960);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn cost(&self, n: u32) -> Cost<&Self> {
        Cost::new(self, n.into())
    }

    /// Returns this semaphore as a [`Throttle`] whose entries take `n` permits each, all at once.
    /// It shares the semaphore, and so may move into a task.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Semaphore;
    ///
    /// let memory = Arc::new(Semaphore::new(1024));
    /// let throttle = Arc::clone(&memory).cost_owned(64);
    /// let permit = std::thread::spawn(move || throttle.try_acquire()).join().unwrap()?;
    /// assert_eq!(memory.available_permits(), 960);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn cost_owned(self: Arc<Self>, n: u32) -> Cost<Arc<Self>> {
        Cost::new(self, n.into())
    }
}

/// Conversion to a throttle with a cost.
impl RateLimiter {
    /// Returns this limiter as a [`Throttle`] whose entries are charged `n` each. To move it into a
    /// task, see [`cost_owned`](Self::cost_owned).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter, Semaphore, all};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let slots = Semaphore::new(8);
    /// let requests = RateLimiter::new(Quota::per_second(50).burst(5));
    /// let bytes = RateLimiter::new(Quota::bytes_per_second(20_000_000));
    ///
    /// let part = [0; 4096];
    /// let (slot, request, volume) =
    ///     all((&slots, &requests, bytes.cost(part.len() as u64))).acquire().await?;
    /// assert_eq!((request.cost(), volume.cost()), (1, 4096));
    /// # drop(slot);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn cost(&self, n: u64) -> Cost<&Self> {
        Cost::new(self, n)
    }

    /// Returns this limiter as a [`Throttle`] whose entries are charged `n` each. It shares the
    /// limiter, and so may move into a task.
    #[inline]
    pub fn cost_owned(self: Arc<Self>, n: u64) -> Cost<Arc<Self>> {
        Cost::new(self, n)
    }
}

impl<T: Weighted> Cost<T> {
    /// Waits for `cost` units.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`Semaphore::acquire_many`], [`RateLimiter::acquire_many`] or
    /// [`InClass::acquire_many`](crate::fair::InClass::acquire_many).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let memory = tollgate::Semaphore::new(1024);
    /// let large = memory.cost(64);
    /// let permits = (large.acquire().await?, large.acquire().await?);
    /// assert_eq!(memory.available_permits(), 896);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire(&self) -> Waiting<T::Enter> {
        self.throttle.enter_many(self.cost)
    }

    /// Takes `cost` units without waiting, or nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`Semaphore::try_acquire_many`], [`RateLimiter::try_acquire_many`] or
    /// [`InClass::try_acquire_many`](crate::fair::InClass::try_acquire_many).
    ///
    /// # Examples
    ///
    /// ```
    /// let memory = tollgate::Semaphore::new(100);
    /// assert!(memory.cost(64).try_acquire().is_ok());
    /// assert!(memory.cost(101).try_acquire().is_err());
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<T::Permit, AcquireError>
    where
        T: TryWeighted,
    {
        self.throttle.try_enter_many(self.cost)
    }
}

impl<T> Cost<T> {
    pub(crate) fn new(throttle: T, cost: u64) -> Self {
        Self { throttle, cost }
    }

    pub(super) fn inner(&self) -> &T {
        &self.throttle
    }

    /// Returns the number of permits that each entry takes, or the cost that it is charged.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tollgate::Semaphore::new(1024).cost(64).cost(), 64);
    /// ```
    pub fn cost(&self) -> u64 {
        self.cost
    }
}

impl<T: Weighted> Throttle for Cost<T> {
    type Permit = T::Permit;
    type Enter = T::Enter;

    #[inline]
    fn enter(&self) -> Waiting<T::Enter> {
        self.acquire()
    }

    #[inline]
    fn rollback(&self, permit: T::Permit) {
        self.throttle.rollback(permit);
    }

    fn spend_burst(&self, opening: u64) {
        self.throttle.spend_burst(opening);
    }

    #[inline]
    fn enter_now(&self) -> Option<T::Permit> {
        self.throttle.enter_many_now(self.cost)
    }

    fn tick(&self, permit: Option<&T::Permit>) -> Option<Tick> {
        self.throttle.tick(permit)
    }

    fn enter_as_of(&self, tick: Tick) -> Waiting<T::Enter> {
        self.throttle.enter_many_as_of(self.cost, tick)
    }

    fn wakes_unlocked(&self) -> bool {
        self.throttle.wakes_unlocked()
    }
}

impl<T: TryWeighted> TryThrottle for Cost<T> {
    #[inline]
    fn try_enter(&self) -> Result<T::Permit, AcquireError> {
        self.try_acquire()
    }
}
