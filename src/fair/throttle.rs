//! A class of a fair queue as a throttle, and with a cost.

use super::acquire::{Acquire, FairPermit};
use super::{ClassHandle, ClassKey, Queueable};
use crate::error::AcquireError;
use crate::feedback::Feedback;
use crate::limit_status::LimitStatus;
use crate::throttle::{Adaptive, Cost, Inspect, Throttle, TryThrottle, Weighted};
use crate::wait::Waiting;

impl<T: Queueable, K: ClassKey> Throttle for ClassHandle<T, K> {
    type Permit = FairPermit<T, K>;
    type Enter = Acquire<T, K>;

    #[inline]
    fn enter(&self) -> Waiting<Acquire<T, K>> {
        self.acquire()
    }

    /// Rolls the entry back in the throttle, and takes back what the class was charged.
    fn rollback(&self, permit: FairPermit<T, K>) {
        self.throttle().rollback(permit.into_inner());
    }

    #[inline]
    fn enter_now(&self) -> Option<FairPermit<T, K>> {
        self.enter_now_with(T::enter_now)
    }

    fn wakes_outside_locks(&self) -> bool {
        self.throttle().wakes_outside_locks()
    }
}

impl<T: Queueable + TryThrottle, K: ClassKey> TryThrottle for ClassHandle<T, K> {
    #[inline]
    fn try_enter(&self) -> Result<FairPermit<T, K>, AcquireError> {
        self.try_acquire()
    }
}

impl<T: Queueable + Weighted, K: ClassKey> Throttle for Cost<ClassHandle<T, K>> {
    type Permit = FairPermit<T, K>;
    type Enter = Acquire<T, K>;

    #[inline]
    fn enter(&self) -> Waiting<Acquire<T, K>> {
        self.throttle.acquire_many(self.cost)
    }

    #[inline]
    fn enter_now(&self) -> Option<FairPermit<T, K>> {
        let enter = |throttle: &T| throttle.cost(self.cost).enter_now();
        self.throttle.enter_now_with(enter)
    }

    crate::forward!(Throttle, self => self.throttle, except enter, enter_now, enter_as_of);
}

impl<T, K> TryThrottle for Cost<ClassHandle<T, K>>
where
    T: Queueable + Weighted<Many: TryThrottle>,
    K: ClassKey,
{
    #[inline]
    fn try_enter(&self) -> Result<FairPermit<T, K>, AcquireError> {
        self.throttle.try_acquire_many(self.cost)
    }
}

impl<T: Queueable + Weighted, K: ClassKey> Weighted for ClassHandle<T, K> {
    type Many = Cost<Self>;

    #[inline]
    fn cost(&self, n: u64) -> Cost<Self> {
        Cost::new(self.clone(), n)
    }

    fn settle(&self, permit: FairPermit<T, K>, used: u64) {
        self.throttle().settle(permit.into_inner(), used);
    }

    fn max_units(&self) -> u64 {
        self.throttle().max_units()
    }

    fn chunk_units(&self) -> u64 {
        self.throttle().chunk_units()
    }
}

impl<T: Queueable + Adaptive, K: ClassKey> Adaptive for ClassHandle<T, K> {
    fn learn(&self, permit: &mut FairPermit<T, K>, feedback: Feedback) {
        self.throttle().learn(&mut permit.inner, feedback);
    }
}

impl<T: Queueable + Inspect, K: ClassKey> Inspect for ClassHandle<T, K> {
    const LIMITS: usize = T::LIMITS;

    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        let inner = permit.map(|permit| &permit.inner);
        self.throttle().inspect(inner, each);
    }
}
