//! [`Cost`]: a throttle with a fixed cost per entry other than 1. Each type implements its own entry with a
//! cost.

use super::{Inspect, Throttle, TryThrottle};
use crate::error::AcquireError;
use crate::status::LimitStatus;
use crate::wait::Waiting;

/// A semaphore or a rate limiter with a cost: each entry takes this many permits, or is charged
/// this much. It is for [`all`](crate::all), streams and other generic code, which cannot pass a
/// cost.
///
/// `T` is a reference to one of these, or an `Arc`, or a [`Key`](crate::keyed::Key), or a
/// [class](crate::fair::ClassHandle). Created by [`Semaphore::cost`](crate::Semaphore::cost), [`RateLimiter::cost`](crate::RateLimiter::cost),
/// [`Key::cost`](crate::keyed::Key::cost) and [`ClassHandle::cost`](crate::fair::ClassHandle::cost), and, to
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
    pub(crate) throttle: T,
    pub(crate) cost: u64,
}

impl<T> Cost<T> {
    /// Waits for `cost` units.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`Semaphore::acquire_many`](crate::Semaphore::acquire_many), [`RateLimiter::acquire_many`](crate::RateLimiter::acquire_many) or
    /// [`ClassHandle::acquire_many`](crate::fair::ClassHandle::acquire_many).
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
    pub fn acquire(&self) -> Waiting<<Self as Throttle>::Enter>
    where
        Self: Throttle,
    {
        self.enter()
    }

    /// Takes `cost` units without waiting, or nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`Semaphore::try_acquire_many`](crate::Semaphore::try_acquire_many), [`RateLimiter::try_acquire_many`](crate::RateLimiter::try_acquire_many) or
    /// [`ClassHandle::try_acquire_many`](crate::fair::ClassHandle::try_acquire_many).
    ///
    /// # Examples
    ///
    /// ```
    /// let memory = tollgate::Semaphore::new(100);
    /// assert!(memory.cost(64).try_acquire().is_ok());
    /// assert!(memory.cost(101).try_acquire().is_err());
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<<Self as Throttle>::Permit, AcquireError>
    where
        Self: TryThrottle,
    {
        self.try_enter()
    }

    pub(crate) fn new(throttle: T, cost: u64) -> Self {
        Self { throttle, cost }
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

impl<T: Inspect> Inspect for Cost<T>
where
    Self: Throttle<Permit = T::Permit>,
{
    const LIMITS: usize = T::LIMITS;

    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        self.throttle.inspect(permit, each);
    }
}
