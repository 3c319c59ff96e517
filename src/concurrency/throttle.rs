//! The types of this room as throttles.

use std::sync::Arc;

#[cfg(feature = "channel")]
use super::channel_semaphore::{self, ChannelSemaphore};
use super::pool::{self, Pool};
use super::{Acquire, Permit, Semaphore};
use crate::error::AcquireError;
use crate::limit_status::LimitStatus;
use crate::throttle::{Cost, Inspect, Throttle, TryThrottle, Weighted, handles, units};
use crate::wait::Waiting;

handles! {
    impl [] Throttle for Semaphore {
        type Permit = Permit<Self>;
        type Enter = Acquire<Self>;

        #[inline]
        fn enter(&self) -> Waiting<Self::Enter> {
            Waiting::new(Acquire::new(Clone::clone(self), 1))
        }

        handles!(enter_now);
        handles!(wakes_outside_locks);
    }

    impl [] TryThrottle for Semaphore {
        #[inline]
        fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
            self.try_take(1)?;
            Ok(Permit::new(Clone::clone(self), 1))
        }
    }

    impl [] Weighted for Semaphore {
        type Many = Cost<Self>;

        #[inline]
        #[track_caller]
        fn cost(&self, n: u64) -> Cost<Self> {
            let _: u32 = units(n);
            Cost::new(Clone::clone(self), n)
        }

        fn settle(&self, permit: Self::Permit, _used: u64) {
            drop(permit);
        }

        fn max_units(&self) -> u64 {
            let permits = u64::try_from(self.permits()).unwrap_or(u64::MAX);
            permits.clamp(1, u32::MAX.into())
        }
    }

    impl [] Inspect for Semaphore {
        fn inspect(&self, _: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
            each(0, self.status());
        }
    }
}

handles! {
    impl [] Throttle, TryThrottle for Cost<Semaphore> {
        #[inline]
        fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
            let permits = units(self.cost);
            self.throttle.try_take(permits)?;
            Ok(Permit::new(Clone::clone(&self.throttle), permits))
        }

        #[inline]
        fn enter(&self) -> Waiting<Self::Enter> {
            Waiting::new(Acquire::new(Clone::clone(&self.throttle), units(self.cost)))
        }
    }
}

handles! {
    impl [T] Throttle for Pool<T> {
        type Permit = pool::Permit<Self, T>;
        type Enter = pool::Acquire<Self, T>;

        #[inline]
        fn enter(&self) -> Waiting<Self::Enter> {
            Waiting::new(pool::Acquire::new(Clone::clone(self)))
        }

        handles!(enter_now);
        handles!(wakes_outside_locks);
    }

    impl [T] TryThrottle for Pool<T> {
        #[inline]
        fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
            pool::Permit::try_new(Clone::clone(self))
        }
    }

    impl [T] Inspect for Pool<T> {
        fn inspect(&self, _: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
            each(0, LimitStatus::concurrency(self.snapshot()));
        }
    }
}

#[cfg(feature = "channel")]
handles! {
    impl [] Throttle for ChannelSemaphore {
        type Permit = Permit<Self>;
        type Enter = channel_semaphore::Acquire<Self>;

        #[inline]
        fn enter(&self) -> Waiting<Self::Enter> {
            Waiting::new(channel_semaphore::Acquire::new(Clone::clone(self)))
        }

        handles!(enter_now);
    }

    impl [] TryThrottle for ChannelSemaphore {
        #[inline]
        fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
            self.try_take()?;
            Ok(Permit::new(Clone::clone(self), 1))
        }
    }

    impl [] Inspect for ChannelSemaphore {
        fn inspect(&self, _: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
            each(0, LimitStatus::concurrency(self.snapshot()));
        }
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
