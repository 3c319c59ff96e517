//! A semaphore or a rate limiter as a throttle of which each entry costs the same, other than one.

use std::ops::Deref;
use std::sync::Arc;

use super::{Throttle, TryThrottle};
use crate::concurrency::{Acquire, AcquireOwned, OwnedPermit, Permit, Semaphore};
use crate::error::AcquireError;
use crate::rate::{self, Charge, RateLimiter};
use crate::wait::Waiting;

/// A semaphore or a rate limiter with a weight: whoever enters takes this many permits, or is
/// charged this much. For [`all`](super::all), streams and other generic code, which cannot say how
/// many.
///
/// Made by [`Semaphore::cost`] and [`RateLimiter::cost`], and, to move into a task, by their
/// `cost_owned`.
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
pub struct Cost<T> {
    throttle: T,
    cost: u64,
}

/// As a part of something else.
impl Semaphore {
    /// This semaphore as a [`Throttle`] of which each entry takes `n` permits, all at once. To
    /// move it into a task, see [`cost_owned`](Self::cost_owned).
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
        Cost {
            throttle: self,
            cost: n.into(),
        }
    }

    /// This semaphore as a [`Throttle`] of which each entry takes `n` permits, all at once, and
    /// which shares the semaphore and so may move into a task.
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
        Cost {
            throttle: self,
            cost: n.into(),
        }
    }
}

/// As a part of something else.
impl RateLimiter {
    /// This limiter as a [`Throttle`] of which each entry is charged `n`. To move it into a task,
    /// see [`cost_owned`](Self::cost_owned).
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
    /// let bytes = RateLimiter::new(Quota::per_second(20_000_000).burst(1_000_000));
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
        Cost {
            throttle: self,
            cost: n,
        }
    }

    /// This limiter as a [`Throttle`] of which each entry is charged `n`, and which shares the
    /// limiter and so may move into a task.
    #[inline]
    pub fn cost_owned(self: Arc<Self>, n: u64) -> Cost<Arc<Self>> {
        Cost {
            throttle: self,
            cost: n,
        }
    }
}

impl<T> Cost<T>
where
    Self: TryThrottle,
{
    /// Waits for as much as this costs.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire_many`] or [`RateLimiter::acquire_many`].
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
    pub fn acquire(&self) -> Waiting<<Self as Throttle>::Enter> {
        self.enter()
    }

    /// Takes as much as this costs now, or nothing.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::try_acquire_many`] or [`RateLimiter::try_acquire_many`].
    ///
    /// # Examples
    ///
    /// ```
    /// let memory = tollgate::Semaphore::new(100);
    /// assert!(memory.cost(64).try_acquire().is_ok());
    /// assert!(memory.cost(101).try_acquire().is_err());
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<<Self as Throttle>::Permit, AcquireError> {
        self.try_enter()
    }
}

impl<T> Cost<T> {
    pub(super) fn new(throttle: T, cost: u64) -> Self {
        Self { throttle, cost }
    }

    pub(super) fn throttle(&self) -> &T {
        &self.throttle
    }

    /// How many permits each entry takes, or how much it is charged.
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

impl<T: Deref<Target = Semaphore>> Cost<T> {
    /// The cost, which is one of permits.
    fn permits(&self) -> u32 {
        // It was made of a `u32`.
        u32::try_from(self.cost).unwrap_or(u32::MAX)
    }
}

impl<'a> Throttle for Cost<&'a Semaphore> {
    type Permit = Permit<&'a Semaphore>;
    type Enter = Acquire<&'a Semaphore>;

    #[inline]
    fn enter(&self) -> Waiting<Acquire<&'a Semaphore>> {
        self.throttle.acquire_many(self.permits())
    }
}

impl<'a> TryThrottle for Cost<&'a Semaphore> {
    #[inline]
    fn try_enter(&self) -> Result<Permit<&'a Semaphore>, AcquireError> {
        self.throttle.try_acquire_many(self.permits())
    }
}

impl Throttle for Cost<Arc<Semaphore>> {
    type Permit = OwnedPermit;
    type Enter = AcquireOwned;

    #[inline]
    fn enter(&self) -> Waiting<AcquireOwned> {
        Arc::clone(&self.throttle).acquire_many_owned(self.permits())
    }
}

impl TryThrottle for Cost<Arc<Semaphore>> {
    #[inline]
    fn try_enter(&self) -> Result<OwnedPermit, AcquireError> {
        Arc::clone(&self.throttle).try_acquire_many_owned(self.permits())
    }
}

impl<'a> Throttle for Cost<&'a RateLimiter> {
    type Permit = Charge;
    type Enter = rate::Acquire<&'a RateLimiter>;

    #[inline]
    fn enter(&self) -> Waiting<rate::Acquire<&'a RateLimiter>> {
        self.throttle.acquire_many(self.cost)
    }

    fn rollback(&self, charge: Charge) {
        self.throttle.refund(charge);
    }
}

impl TryThrottle for Cost<&RateLimiter> {
    #[inline]
    fn try_enter(&self) -> Result<Charge, AcquireError> {
        self.throttle.try_acquire_many(self.cost)
    }
}

impl Throttle for Cost<Arc<RateLimiter>> {
    type Permit = Charge;
    type Enter = rate::AcquireOwned;

    #[inline]
    fn enter(&self) -> Waiting<rate::AcquireOwned> {
        Arc::clone(&self.throttle).acquire_many_owned(self.cost)
    }

    fn rollback(&self, charge: Charge) {
        self.throttle.refund(charge);
    }
}

impl TryThrottle for Cost<Arc<RateLimiter>> {
    #[inline]
    fn try_enter(&self) -> Result<Charge, AcquireError> {
        self.throttle.try_acquire_many(self.cost)
    }
}
