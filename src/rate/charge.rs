//! [`Charge`]: what a limiter took.

use crate::algorithm::Receipt;
use crate::time::Tick;

/// What a rate limiter took for a call.
///
/// Plain data: dropping it keeps the charge, and time pays it off. If the call was not made after
/// all, hand it to [`refund`](super::RateLimiter::refund); if it turned out to cost more or less, to
/// [`settle`](super::RateLimiter::settle), of the limiter that it came from.
/// [`decision`](super::RateLimiter::decision) says how that limiter stood just after.
///
/// # Examples
///
/// ```
/// use tollgate::{Clock, Quota, RateLimiter};
///
/// let clock = Clock::manual();
/// let limiter = RateLimiter::new(Quota::per_second(10).burst(10)).clock(&clock);
/// let charge = limiter.try_acquire_many(4)?;
/// assert_eq!((charge.cost(), limiter.available()), (4, 6));
///
/// limiter.refund(charge);
/// assert_eq!(limiter.available(), 10);
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Debug)]
pub struct Charge(Receipt);

impl Charge {
    /// Returns how much was charged: what was asked for, except for debts of more than 30 years, for
    /// which there is no room.
    #[inline]
    pub fn cost(&self) -> u64 {
        self.0.cost
    }

    /// Returns the tick of the limiter's clock at which it was charged.
    ///
    /// The promise of the limiter is kept by these ticks. A task goes on somewhat later: its thread
    /// may be interrupted after it has read the clock, and [a timer may be
    /// late](super::MissedTickBehavior).
    #[inline]
    pub fn at(&self) -> Tick {
        self.0.at
    }

    /// Where it stands among the charges of its limiter.
    #[inline]
    pub(crate) fn receipt(&self) -> &Receipt {
        &self.0
    }
}

impl From<Receipt> for Charge {
    #[inline(always)]
    fn from(receipt: Receipt) -> Self {
        Self(receipt)
    }
}
