//! One key of many as a throttle, and with a cost.

use std::hash::{BuildHasher, Hash};

use super::{Cost, Throttle, TryThrottle};
use crate::error::AcquireError;
use crate::keyed::{Acquire, Key, Kind};
use crate::time::Tick;
use crate::wait::Waiting;

impl<'a, T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Throttle for Key<'a, T, Q, S> {
    type Permit = T::Permit;
    type Enter = Acquire<'a, T, Q, S>;

    #[inline]
    fn enter(&self) -> Waiting<Self::Enter> {
        self.acquire()
    }

    fn rollback(&self, permit: T::Permit) {
        T::rollback(self, permit);
    }

    fn spend_burst(&self, opening: u64) {
        T::spend_burst(self, opening);
    }

    #[inline]
    fn enter_now(&self) -> Option<T::Permit> {
        self.try_acquire().ok()
    }

    fn tick(&self, permit: Option<&T::Permit>) -> Option<Tick> {
        self.tick(permit)
    }

    fn enter_as_of(&self, tick: Tick) -> Waiting<Self::Enter> {
        self.acquire_many_as_of(1.into(), tick)
    }

    fn wakes_unlocked(&self) -> bool {
        true
    }
}

impl<T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> TryThrottle for Key<'_, T, Q, S> {
    #[inline]
    fn try_enter(&self) -> Result<T::Permit, AcquireError> {
        self.try_acquire()
    }
}

/// Conversion to a throttle with a cost.
impl<T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Key<'_, T, Q, S> {
    /// Returns this key as a [`Throttle`](crate::Throttle) whose entries cost `n` each.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Keyed, Quota};
    ///
    /// let bytes = Keyed::<u64, _>::rate_limiters(Quota::per_second(1000).burst(1000))
    ///     .clock(Clock::manual());
    /// bytes.key(&7).cost(600).try_acquire()?;
    /// assert_eq!(bytes.key(&7).available(), 400);
    ///
    /// let slots = Keyed::<u64, _>::semaphores(8);
    /// let permit = slots.key(&7).cost(6).try_acquire()?;
    /// assert_eq!(permit.count(), 6);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn cost(&self, n: T::Cost) -> Cost<Self> {
        Cost::new(self.clone(), n.into())
    }
}
