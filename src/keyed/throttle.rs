//! One key of many as a throttle, and with a cost.

use std::hash::{BuildHasher, Hash};

use super::key::Acquire;
use super::{Key, Kind};
use crate::error::AcquireError;
use crate::status::LimitStatus;
use crate::throttle::{Cost, Inspect, Polling, Weighted, handles};
use crate::wait::Waiting;
use crate::{Throttle, TryThrottle};

impl<'a, T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Throttle for Key<'a, T, Q, S> {
    type Permit = T::Permit;
    type Enter = Acquire<'a, T, Q, S>;

    #[inline]
    fn enter(&self) -> Waiting<Self::Enter> {
        self.acquire()
    }

    fn rollback(&self, permit: T::Permit) {
        T::settle(self, permit, 0);
    }

    fn polling(&self) -> Polling {
        T::polling(&self.map().state)
    }

    handles!(enter_now);
}

impl<T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> TryThrottle for Key<'_, T, Q, S> {
    #[inline]
    fn try_enter(&self) -> Result<T::Permit, AcquireError> {
        self.try_acquire()
    }
}

handles! {
    cost ['a, T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher] Key<'a, T, Q, S> {
        #[inline]
        fn try_enter(&self) -> Result<T::Permit, AcquireError> {
            self.throttle.try_acquire_many(self.cost)
        }

        #[inline]
        fn enter(&self) -> Waiting<Self::Enter> {
            self.throttle.acquire_many(self.cost)
        }
    }
}

impl<T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Weighted for Key<'_, T, Q, S> {
    type Many = Cost<Self>;

    #[inline]
    #[track_caller]
    fn cost(&self, n: u64) -> Cost<Self> {
        Key::cost(self, n)
    }

    fn settle(&self, permit: T::Permit, used: u64) {
        T::settle(self, permit, used);
    }

    fn max_units(&self) -> u64 {
        self.status().max_units
    }

    fn chunk_units(&self) -> u64 {
        self.status().chunk_units
    }
}

impl<T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Inspect for Key<'_, T, Q, S> {
    fn inspect(&self, _: Option<&T::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        each(0, self.status().status);
    }
}

/// Conversion to a throttle with a cost.
impl<T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Key<'_, T, Q, S> {
    /// Returns this key as a [`Throttle`](crate::Throttle) whose entries cost `n` each.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Keyed, Quota, RateLimiter};
    ///
    /// let each = RateLimiter::new(Quota::per_second(1000).burst(1000)).clock(Clock::manual());
    /// let bytes = Keyed::<u64, _>::new(each);
    /// bytes.key(&7).cost(600).try_acquire()?;
    /// assert_eq!(bytes.key(&7).snapshot().available, 400);
    ///
    /// let slots = Keyed::<u64, _>::semaphores(8);
    /// let permit = slots.key(&7).cost(6).try_acquire()?;
    /// assert_eq!(permit.count(), 6);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn cost(&self, n: u64) -> Cost<Self> {
        Cost::new(self.clone(), n)
    }
}
