//! [`PerCall`]: a throttle that takes 1 for each call, whatever the call weighs.

use super::{Adaptive, Inspect, Throttle, TryThrottle, Weighted};
use crate::error::AcquireError;
use crate::feedback::Feedback;
use crate::status::LimitStatus;

/// Takes 1 for each call, whatever weight the call has: a part of a [weighted composition](super::All::weighted) that
/// counts calls.
///
/// # Examples
///
/// ```
/// use tollgate::throttle::{Weighted, per_call};
/// use tollgate::{Semaphore, TryThrottle};
///
/// let slots = Semaphore::new(8);
/// let call = per_call(&slots).cost(65_536).try_enter()?;
/// assert_eq!(call.count(), 1);
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
pub fn per_call<T: Throttle>(throttle: T) -> PerCall<T> {
    PerCall { throttle }
}

/// A throttle that takes 1 for each call, whatever the call weighs; created by
/// [`per_call`].
///
/// It admits any number of units, and has no part in the [`max_units`](Weighted::max_units) and the
/// [`chunk_units`](Weighted::chunk_units) of a composition. A call that used none of its units is
/// [rolled back](Throttle::rollback). Order, cancel safety and errors are those of the inner throttle.
#[derive(Clone, Debug)]
#[must_use = "a throttle does nothing until it is entered"]
pub struct PerCall<T> {
    throttle: T,
}

impl<T: Throttle> Throttle for PerCall<T> {
    type Permit = T::Permit;
    type Enter = T::Enter;

    crate::forward!(Throttle, self => self.throttle);
}

impl<T: TryThrottle> TryThrottle for PerCall<T> {
    #[inline]
    fn try_enter(&self) -> Result<T::Permit, AcquireError> {
        self.throttle.try_enter()
    }
}

impl<T: Throttle> Weighted for PerCall<T> {
    type Many = Self;

    #[inline]
    fn cost(&self, _: u64) -> Self {
        self.clone()
    }

    #[inline]
    fn settle(&self, permit: T::Permit, used: u64) {
        if used == 0 {
            self.throttle.rollback(permit);
        }
    }

    fn max_units(&self) -> u64 {
        u64::MAX
    }

    fn chunk_units(&self) -> u64 {
        u64::MAX
    }
}

impl<T: Inspect> Inspect for PerCall<T> {
    const LIMITS: usize = T::LIMITS;

    fn inspect(&self, permit: Option<&T::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        self.throttle.inspect(permit, each);
    }
}

impl<T: Adaptive> Adaptive for PerCall<T> {
    fn learn(&self, permit: &mut T::Permit, feedback: Feedback) {
        self.throttle.learn(permit, feedback);
    }
}
