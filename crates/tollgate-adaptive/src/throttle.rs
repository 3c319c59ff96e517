//! The adaptive limits as throttles.

use tollgate::throttle::{Adaptive, Feedback, Inspect, LimitStatus, Polling};
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Throttle, TryThrottle};

use super::handles::{Shared, handles};
use super::rate::AcquireRate;
use super::semaphore::Acquire;
use super::{AdaptivePermit, AdaptiveRate, AdaptiveSemaphore, RatePermit};

handles! {
    AdaptiveSemaphore, self {
        type Permit = AdaptivePermit<Self>;
        type Enter = Acquire<Self>;
        enter: Acquire::new(Clone::clone(self));
        try_enter: AdaptivePermit::try_new(Clone::clone(self));
        status: (&self.semaphore);

        fn rollback(&self, permit: Self::Permit) {
            permit.ignore();
        }

        #[inline]
        fn polling(&self) -> Polling {
            (&self.semaphore).polling()
        }
    }
}

handles! {
    AdaptiveRate, self {
        type Permit = RatePermit<Self>;
        type Enter = AcquireRate<Self>;
        enter: AcquireRate::new(Clone::clone(self));
        try_enter: RatePermit::try_new(Clone::clone(self));
        status: (&self.limiter);

        fn rollback(&self, permit: Self::Permit) {
            permit.refund();
        }

        fn polling(&self) -> Polling {
            (&self.limiter).polling()
        }
    }
}
