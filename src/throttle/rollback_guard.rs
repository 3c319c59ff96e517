//! [`RollbackGuard`]: a permit that is rolled back unless it is used.

use super::{Throttle, Weighted};
use crate::debug::debug_as;
use crate::panic::contain_panic;

/// A permit that is [rolled back](Throttle::rollback) when the guard is dropped, unless it was taken
/// out or settled before. Use it in code that has entered a throttle, and may still fail, be
/// cancelled or panic before the work begins.
///
/// `T` is a throttle, often a reference to one. A panic of its `rollback` in the drop is caught.
///
/// # Examples
///
/// ```
/// use tollgate::throttle::RollbackGuard;
/// use tollgate::{AcquireError, Clock, Quota, RateLimiter, Throttle};
///
/// /// Connects at a limited rate; an attempt that does not come about costs nothing.
/// async fn connect<T: Throttle>(rate: T, works: bool) -> Result<Option<T::Permit>, AcquireError> {
///     let guard = RollbackGuard::new(&rate, rate.enter().await?);
///     // If this fails, or the future is dropped here, the charge is refunded.
///     Ok(works.then(|| guard.disarm()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), AcquireError> {
/// let rate = RateLimiter::new(Quota::per_second(10).burst(2)).clock(Clock::manual());
/// assert!(connect(&rate, false).await?.is_none());
/// assert_eq!(rate.snapshot().available, 2);
/// assert!(connect(&rate, true).await?.is_some());
/// assert_eq!(rate.snapshot().available, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "a guard that is dropped at once rolls the permit back"]
pub struct RollbackGuard<T: Throttle> {
    // `Some` until the permit is taken out or settled.
    held: Option<(T, T::Permit)>,
}

impl<T: Throttle> RollbackGuard<T> {
    /// Guards a permit of this throttle.
    #[inline(always)]
    pub fn new(throttle: T, permit: T::Permit) -> Self {
        let held = Some((throttle, permit));
        Self { held }
    }

    /// Takes the permit out, for the caller to keep.
    #[inline(always)]
    pub fn disarm(mut self) -> T::Permit {
        self.take()
    }

    /// Does the same for a guard inside a pinned value. Call it once, as the last method.
    #[inline(always)]
    pub(super) fn take(&mut self) -> T::Permit {
        let (_, permit) = self.held.take().expect("it is there until the end");
        permit
    }

    /// Corrects the permit to the units that were used; see [`Weighted::settle`].
    #[inline]
    pub fn settle(mut self, used: u64)
    where
        T: Weighted,
    {
        if let Some((throttle, permit)) = self.held.take() {
            throttle.settle(permit, used);
        }
    }
}

impl<T: Throttle> Drop for RollbackGuard<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some((throttle, permit)) = self.held.take() {
            roll_back(throttle, permit);
        }
    }
}

// It takes values, so a guard that is disarmed needs no memory.
#[cold]
#[inline(never)]
fn roll_back<T: Throttle>(throttle: T, permit: T::Permit) {
    contain_panic(|| throttle.rollback(permit));
}

debug_as! {
    [T: Throttle + std::fmt::Debug] RollbackGuard<T>, self, let held = self.held.as_ref()
    => RollbackGuard { throttle: held.map(|(throttle, _)| throttle), .. }
}
