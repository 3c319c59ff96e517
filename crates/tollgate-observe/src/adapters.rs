//! What adapters ask of a throttle beyond its entries, passed on to the throttle inside.

use super::{Observed, Observer};
use tollgate::adaptive::Feedback;
use tollgate::throttle::{Adaptive, Inspect, LimitStatus, Weighted};

/// An entry of any number of units is one entry, and is reported as such.
impl<T: Weighted, O: Observer + Clone> Weighted for Observed<T, O> {
    type Many = Observed<T::Many, O>;

    #[inline]
    fn cost(&self, n: u64) -> Observed<T::Many, O> {
        self.around(self.throttle().cost(n))
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
}

impl<T: Adaptive, O: Observer + Clone> Adaptive for Observed<T, O> {
    fn learn(&self, permit: &mut Self::Permit, feedback: Feedback) {
        self.throttle().learn(permit, feedback);
    }
}

impl<T: Inspect, O: Observer + Clone> Inspect for Observed<T, O> {
    const LIMITS: usize = T::LIMITS;

    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        let permit = permit.map(|permit| &**permit);
        self.throttle().inspect(permit, each);
    }
}
