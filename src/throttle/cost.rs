//! A throttle of which each entry asks for the same amount, other than one.

use std::sync::Arc;

use super::{Throttle, TryThrottle};
use crate::concurrency::{Acquire, AcquireOwned, OwnedPermit, Permit, Semaphore};
use crate::error::AcquireError;

/// A throttle of which each entry asks for so much: for a composition or an adapter, where an entry
/// has no number of its own.
///
/// Made by [`Semaphore::cost`] and [`Semaphore::cost_owned`].
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
    cost: u32,
}

/// As a part of something else.
impl Semaphore {
    /// This semaphore as a [`Throttle`] of which each entry asks for `permits` permits.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Semaphore, TryThrottle};
    ///
    /// let memory = Semaphore::new(1024);
    /// let permit = memory.cost(64).try_enter()?;
    /// assert_eq!(memory.available_permits(), 960);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn cost(&self, permits: u32) -> Cost<&Self> {
        Cost {
            throttle: self,
            cost: permits,
        }
    }

    /// This semaphore as a [`Throttle`] of which each entry asks for `permits` permits, and which
    /// shares the semaphore and so may move into a task.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Semaphore, TryThrottle};
    ///
    /// let memory = Arc::new(Semaphore::new(1024));
    /// let throttle = Arc::clone(&memory).cost_owned(64);
    /// let permit = std::thread::spawn(move || throttle.try_enter()).join().unwrap()?;
    /// assert_eq!(memory.available_permits(), 960);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn cost_owned(self: Arc<Self>, permits: u32) -> Cost<Arc<Self>> {
        Cost {
            throttle: self,
            cost: permits,
        }
    }
}

impl<T> Cost<T> {
    /// How much each entry asks for.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tollgate::Semaphore::new(1024).cost(64).cost(), 64);
    /// ```
    pub fn cost(&self) -> u32 {
        self.cost
    }
}

impl<'a> Throttle for Cost<&'a Semaphore> {
    type Permit = Permit<'a>;
    type Enter = Acquire<'a>;

    #[inline]
    fn enter(&self) -> Acquire<'a> {
        self.throttle.acquire_many(self.cost)
    }
}

impl<'a> TryThrottle for Cost<&'a Semaphore> {
    #[inline]
    fn try_enter(&self) -> Result<Permit<'a>, AcquireError> {
        self.throttle.try_acquire_many(self.cost)
    }
}

impl Throttle for Cost<Arc<Semaphore>> {
    type Permit = OwnedPermit;
    type Enter = AcquireOwned;

    #[inline]
    fn enter(&self) -> AcquireOwned {
        Arc::clone(&self.throttle).acquire_many_owned(self.cost)
    }
}

impl TryThrottle for Cost<Arc<Semaphore>> {
    #[inline]
    fn try_enter(&self) -> Result<OwnedPermit, AcquireError> {
        Arc::clone(&self.throttle).try_acquire_many_owned(self.cost)
    }
}
