//! The types of this module as throttles.

use std::sync::Arc;

use super::RateLimiter;
use super::acquire::{Acquire, Limiter};
use super::charge::Charge;
use super::leaky_bucket::LeakyBucket;
use crate::error::AcquireError;
use crate::status::LimitStatus;
use crate::throttle::{Cost, Inspect, Polling, Weighted, handles};
use crate::wait::Waiting;
use crate::{Throttle, TryThrottle};

handles! {
    limit [] RateLimiter, self {
        type Permit = Charge;
        type Enter = Acquire<Self>;
        enter: Acquire::new(Clone::clone(self), 1);
        try_enter: self.try_acquire();
        status: self.status();

        fn rollback(&self, charge: Charge) {
            self.refund(charge);
        }

        #[inline]
        fn polling(&self) -> Polling {
            let mut polling = Polling::BY_WAKERS;
            polling.depends_on_runtime = self.config.clock.is_of_runtime();
            polling
        }
    }
}

handles! {
    impl [] Weighted for RateLimiter {
        type Many = Cost<Self>;

        #[inline]
        fn cost(&self, n: u64) -> Cost<Self> {
            Cost::new(Clone::clone(self), n)
        }

        #[inline]
        fn settle(&self, charge: Charge, used: u64) {
            RateLimiter::settle(self, charge, used);
        }

        #[inline]
        fn max_units(&self) -> u64 {
            // This reads without the lock, so two of the numbers may be of different quotas.
            // The quota is that of each runtime.
            let state = self.outside();
            self.config.most(state.params.load().burst().max(1))
        }

        #[inline]
        fn chunk_units(&self) -> u64 {
            self.outside().params.chunk()
        }
    }
}

handles! {
    impl [] Throttle, TryThrottle for Cost<RateLimiter> {
        #[inline(always)]
        fn try_enter(&self) -> Result<Charge, AcquireError> {
            self.throttle.try_acquire_many(self.cost)
        }

        #[inline]
        fn enter(&self) -> Waiting<Self::Enter> {
            Waiting::new(Acquire::new(Clone::clone(&self.throttle), self.cost))
        }
    }
}

handles! {
    limit [] LeakyBucket, self {
        type Permit = Charge;
        type Enter = Acquire<Self>;
        enter: Acquire::new(Clone::clone(self), 1);
        try_enter: self.try_acquire();
        status: self.limiter.status();

        crate::forward!(Throttle, self => &self.limiter, except enter, enter_now);
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
    /// limiter, so it may move into a task.
    #[inline]
    pub fn cost_owned(self: Arc<Self>, n: u64) -> Cost<Arc<Self>> {
        Cost::new(self, n)
    }
}
