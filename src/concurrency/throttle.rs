//! Implements the throttle traits for the types of this module.

use std::sync::Arc;

#[cfg(feature = "channel")]
use super::channel_semaphore::{self, ChannelSemaphore};
use super::pool::{self, Pool};
use super::{Acquire, Permit, Semaphore};
use crate::error::AcquireError;
use crate::status::LimitStatus;
use crate::throttle::{Cost, Inspect, Weighted, handles};
use crate::wait::Waiting;
use crate::{Throttle, TryThrottle};

handles! {
    limit [] Semaphore, self {
        type Permit = Permit<Self>;
        type Enter = Acquire<Self>;
        enter: Acquire::of(Clone::clone(self), 1);
        try_enter: self.try_take(1).map(|()| Permit::new(Clone::clone(self), 1));
        status: self.status();

        handles!(polled_by_wakers);
    }
}

handles! {
    impl [] Weighted for Semaphore {
        type Many = Cost<Self>;

        #[inline]
        #[track_caller]
        fn cost(&self, n: u64) -> Cost<Self> {
            Cost::new(Clone::clone(self), n)
        }

        fn settle(&self, permit: Self::Permit, _used: u64) {
            drop(permit);
        }

        fn max_units(&self) -> u64 {
            let permits = u64::try_from(self.permits()).unwrap_or(u64::MAX);
            permits.max(1)
        }
    }
}

handles! {
    impl [] Throttle, TryThrottle for Cost<Semaphore> {
        #[inline]
        fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
            let permits = self.cost;
            self.throttle.try_take(permits)?;
            Ok(Permit::new(Clone::clone(&self.throttle), permits))
        }

        #[inline]
        fn enter(&self) -> Waiting<Self::Enter> {
            Waiting::new(Acquire::new(Clone::clone(&self.throttle), self.cost))
        }
    }
}

handles! {
    limit [T] Pool<T>, self {
        type Permit = pool::Permit<Self, T>;
        type Enter = pool::Acquire<Self, T>;
        enter: pool::Acquire::new(Clone::clone(self));
        try_enter: pool::Permit::try_new(Clone::clone(self));
        status: LimitStatus::concurrency(self.snapshot());

        handles!(polled_by_wakers);
    }
}

#[cfg(feature = "channel")]
handles! {
    limit [] ChannelSemaphore, self {
        type Permit = Permit<Self>;
        type Enter = channel_semaphore::Acquire<Self>;
        enter: channel_semaphore::Acquire::new(Clone::clone(self));
        try_enter: self.try_take().map(|()| Permit::new(Clone::clone(self), 1));
        status: LimitStatus::concurrency(self.snapshot());
    }
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
    pub fn cost(&self, n: u64) -> Cost<&Self> {
        Cost::new(self, n)
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
    pub fn cost_owned(self: Arc<Self>, n: u64) -> Cost<Arc<Self>> {
        Cost::new(self, n)
    }
}
