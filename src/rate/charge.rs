//! [`Charge`]: what a limiter took.
//!
//! As small as can be: what is written just before the next compare-exchange, that has to wait for.

use crate::time::Tick;

/// What a rate limiter took for a call.
///
/// Plain data: to drop it keeps the charge, time pays it off. If the call was not made after all,
/// hand it to [`refund`](super::RateLimiter::refund); if it turned out to cost more or less, to
/// [`settle`](super::RateLimiter::settle), of the limiter that it came from. How that stood just
/// after is what its [`decision`](super::RateLimiter::decision) says.
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
pub struct Charge {
    /// Where the charge ends among all charges ever made: the end of the debt, had nothing been
    /// refunded.
    pub(super) ticket: u64,
    /// How often the limiter had been reconfigured.
    pub(super) generation: u64,
    pub(super) cost: u64,
    pub(super) at: Tick,
    /// What is owed since, in units.
    pub(super) owed: u64,
}

impl Charge {
    /// How much was charged: what was asked for, but for debts of more than 30 years, for which
    /// there is no room.
    #[inline]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The tick of the limiter's clock at which it was charged.
    ///
    /// The promise of the limiter is kept by these ticks. A task goes on somewhat later: its thread
    /// may be interrupted after it has read the clock, and [a timer may be
    /// late](super::MissedTick). In a [sliding log](crate::Algorithm::SlidingLog) a thread that is
    /// interrupted just then, until others have used its place again and again, may be charged up to
    /// a period before it came.
    #[inline]
    pub fn at(&self) -> Tick {
        self.at
    }
}
