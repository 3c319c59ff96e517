//! The adaptive limits as throttles.

use tollgate::throttle::{Adaptive, Feedback, Inspect, LimitStatus, Polling};
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Throttle, TryThrottle};

use super::handles::{Handle, Shared, handles};
use super::rate::AcquireRate;
use super::semaphore::Acquire;
use super::{AdaptivePermit, AdaptiveRate, AdaptiveSemaphore, RatePermit};

handles! {
    AdaptiveSemaphore, self {
        type Permit = AdaptivePermit<<Self as Handle>::Pointer>;
        type Enter = Acquire<<Self as Handle>::Pointer>;
        enter: Acquire::new(self.pointer());
        try_enter: AdaptivePermit::try_new(self.pointer());
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
        type Permit = RatePermit<<Self as Handle>::Pointer>;
        type Enter = AcquireRate<<Self as Handle>::Pointer>;
        enter: AcquireRate::new(self.pointer());
        try_enter: RatePermit::try_new(self.pointer());
        status: (&self.limiter);

        fn rollback(&self, permit: Self::Permit) {
            permit.refund();
        }

        fn polling(&self) -> Polling {
            (&self.limiter).polling()
        }
    }
}
