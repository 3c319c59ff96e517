//! The adaptive limits as throttles.

use super::rate::AcquireRate;
use super::semaphore::Acquire;
use super::{AdaptivePermit, AdaptiveRate, AdaptiveSemaphore, RatePermit};
use crate::error::AcquireError;
use crate::feedback::Feedback;
use crate::limit_status::LimitStatus;
use crate::throttle::{Adaptive, Inspect, Throttle, TryThrottle, handles};
use crate::time::Tick;
use crate::wait::Waiting;

handles! {
    impl [] Throttle for AdaptiveSemaphore {
        type Permit = AdaptivePermit<Self>;
        type Enter = Acquire<Self>;

        #[inline]
        fn enter(&self) -> Waiting<Self::Enter> {
            Waiting::new(Acquire::new(Clone::clone(self)))
        }

        fn rollback(&self, permit: Self::Permit) {
            permit.ignore();
        }

        handles!(enter_now);
        handles!(wakes_outside_locks);
    }

    impl [] TryThrottle for AdaptiveSemaphore {
        #[inline]
        fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
            AdaptivePermit::try_new(Clone::clone(self))
        }
    }

    impl [] Inspect for AdaptiveSemaphore {
        fn inspect(&self, _: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
            each(0, self.semaphore.status());
        }
    }

    impl [] Adaptive for AdaptiveSemaphore {
        fn learn(&self, permit: &mut Self::Permit, feedback: Feedback) {
            permit.learn(feedback);
        }
    }
}

handles! {
    impl [] Throttle for AdaptiveRate {
        type Permit = RatePermit<Self>;
        type Enter = AcquireRate<Self>;

        #[inline]
        fn enter(&self) -> Waiting<Self::Enter> {
            Waiting::new(AcquireRate::new(Clone::clone(self)))
        }

        #[inline]
        fn tick(&self, permit: Option<&Self::Permit>) -> Option<Tick> {
            Some(self.limiter.tick_of(permit.and_then(RatePermit::charge)))
        }

        #[inline]
        fn enter_as_of(&self, tick: Tick) -> Waiting<Self::Enter> {
            Waiting::new(AcquireRate::as_of(Clone::clone(self), tick))
        }

        fn rollback(&self, permit: Self::Permit) {
            permit.refund();
        }

        handles!(enter_now);
        handles!(wakes_outside_locks);
    }

    impl [] TryThrottle for AdaptiveRate {
        #[inline]
        fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
            RatePermit::try_new(Clone::clone(self))
        }
    }

    impl [] Inspect for AdaptiveRate {
        fn inspect(&self, _: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
            each(0, self.limiter.status());
        }
    }

    impl [] Adaptive for AdaptiveRate {
        fn learn(&self, permit: &mut Self::Permit, feedback: Feedback) {
            permit.learn(feedback);
        }
    }
}
