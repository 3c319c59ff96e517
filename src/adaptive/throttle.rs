//! The adaptive limits as throttles.

use super::rate::AcquireRate;
use super::semaphore::Acquire;
use super::{AdaptivePermit, AdaptiveRate, AdaptiveSemaphore, RatePermit};
use crate::error::AcquireError;
use crate::feedback::Feedback;
use crate::status::LimitStatus;
use crate::throttle::{Adaptive, Inspect, Polling, handles};
use crate::wait::Waiting;
use crate::{Throttle, TryThrottle};

handles! {
    limit [] AdaptiveSemaphore, self {
        type Permit = AdaptivePermit<Self>;
        type Enter = Acquire<Self>;
        enter: Acquire::new(Clone::clone(self));
        try_enter: AdaptivePermit::try_new(Clone::clone(self));
        status: self.semaphore.status();

        fn rollback(&self, permit: Self::Permit) {
            permit.ignore();
        }

        handles!(polled_by_wakers);
    }
}

handles! {
    limit [] AdaptiveRate, self {
        type Permit = RatePermit<Self>;
        type Enter = AcquireRate<Self>;
        enter: AcquireRate::new(Clone::clone(self));
        try_enter: RatePermit::try_new(Clone::clone(self));
        status: self.limiter.status();

        fn rollback(&self, permit: Self::Permit) {
            permit.refund();
        }

        fn polling(&self) -> Polling {
            (&self.limiter).polling()
        }
    }
}

handles! {
    impl [] Adaptive for AdaptiveSemaphore {
        fn learn(&self, permit: &mut Self::Permit, feedback: Feedback) {
            permit.learn(feedback);
        }
    }

    impl [] Adaptive for AdaptiveRate {
        fn learn(&self, permit: &mut Self::Permit, feedback: Feedback) {
            permit.learn(feedback);
        }
    }
}
