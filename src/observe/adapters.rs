//! What adapters ask of a throttle beyond its entries, passed on to the throttle inside.

use super::{EnterObserved, Observed, ObservedPermit, Observer};
use crate::adaptive::Feedback;
use crate::error::AcquireError;
use crate::throttle::{Adaptive, Inspect, LimitStatus, TryWeighted, Weighted};
use crate::time::Tick;
use crate::wait::Waiting;

/// An entry of any number of units is one entry, and is reported as such.
impl<T: Weighted, O: Observer + Clone> Weighted for Observed<T, O> {
    #[inline]
    fn enter_many(&self, n: u64) -> Waiting<EnterObserved<T::Enter, O>> {
        let enter = self.throttle().enter_many(n).into_inner();
        self.observe(enter, self.created)
    }

    /// Reports that the permit is released, whatever was used.
    #[inline]
    fn settle(&self, permit: Self::Permit, used: u64) {
        self.throttle().settle(permit.into_inner(), used);
    }

    fn max_units(&self) -> u64 {
        self.throttle().max_units()
    }

    fn chunk_units(&self) -> u64 {
        self.throttle().chunk_units()
    }

    #[inline]
    fn enter_many_now(&self, n: u64) -> Option<Self::Permit> {
        let permit = self.throttle().enter_many_now(n)?;
        self.report(Ok(permit), self.created).ok()
    }

    fn enter_many_as_of(&self, n: u64, tick: Tick) -> Waiting<Self::Enter> {
        let enter = self.throttle().enter_many_as_of(n, tick).into_inner();
        self.observe(enter, self.created)
    }
}

impl<T: TryWeighted, O: Observer + Clone> TryWeighted for Observed<T, O> {
    #[inline]
    fn try_enter_many(&self, n: u64) -> Result<ObservedPermit<T::Permit, O>, AcquireError> {
        self.report(self.throttle().try_enter_many(n), self.created)
    }
}

impl<T: Adaptive, O: Observer + Clone> Adaptive for Observed<T, O> {
    fn learn(&self, permit: &mut Self::Permit, feedback: Feedback) {
        self.throttle().learn(permit, feedback);
    }
}

impl<T: Inspect, O: Observer + Clone> Inspect for Observed<T, O> {
    const LIMITS: usize = T::LIMITS;

    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(LimitStatus)) {
        self.throttle()
            .inspect(permit.map(|permit| &**permit), each);
    }

    fn inspect_parts(
        &self,
        permit: Option<&Self::Permit>,
        each: &mut dyn FnMut(usize, LimitStatus),
    ) {
        let permit = permit.map(|permit| &**permit);
        self.throttle().inspect_parts(permit, each);
    }
}
