//! [`Charge`]: the record of a charge.

use crate::algorithm::Receipt;
use crate::time::{Clock, Tick};
use crate::wait::report_arrival;

/// The charge of a rate limiter for a call.
///
/// A charge is plain data: dropping it keeps the charge, and time pays it off. If the call was not
/// made after all, pass it to [`refund`](super::RateLimiter::refund); if the call cost more or
/// less, pass it to [`settle`](super::RateLimiter::settle). Pass it to the limiter that made the
/// charge: any other limiter gives nothing back. [`decision`](super::RateLimiter::decision) returns
/// that limiter's state just after the charge.
///
/// # Examples
///
/// ```
/// use tollgate::{Clock, Quota, RateLimiter};
///
/// let clock = Clock::manual();
/// let limiter = RateLimiter::new(Quota::per_second(10).burst(10)).clock(&clock);
/// let charge = limiter.try_acquire_many(4)?;
/// assert_eq!((charge.cost(), limiter.snapshot().available), (4, 6));
///
/// limiter.refund(charge);
/// assert_eq!(limiter.snapshot().available, 10);
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Debug)]
pub struct Charge(pub(crate) Receipt);

impl Charge {
    /// Returns the charged cost. It is the requested cost, except that a backlog that reaches the
    /// end of the limiter's time, years from now, has no room for all of it.
    #[inline]
    pub fn cost(&self) -> u64 {
        self.0.cost
    }

    /// Creates the charge of a call without a limit. No limiter has its generation, so nothing is
    /// ever given back for it.
    pub(super) fn without_limit(cost: u64) -> Self {
        Self(Receipt {
            cost,
            ..Receipt::default()
        })
    }

    /// Reports the tick of the charge of an entrant, or the current one if no clock was read for it.
    pub(crate) fn report(&self, clock: &Clock) {
        let has_tick = self.0.generation != 0;
        let tick = if has_tick { self.0.at } else { clock.now() };
        report_arrival(clock, tick);
    }

    /// Returns the tick of the charge, on the limiter's clock. In a sliding window and a log, a
    /// charge during a [pause](crate::RateLimiter::pause_for) is made behind the spent burst, at a
    /// later tick.
    ///
    /// An [unlimited](crate::Quota::UNLIMITED) limiter, other than a key's, reads no clock to admit a call, so the tick
    /// of its charges is [zero](Tick::default). It does read the clock for a call that had to wait,
    /// during a pause, and while a [hold](crate::RateLimiter::hold) is open.
    ///
    /// The limiter keeps its promise by these ticks. A task resumes somewhat later: its thread may
    /// be interrupted after it has read the clock, and [a timer may be
    /// late](super::MissedTickBehavior).
    #[inline]
    pub fn at(&self) -> Tick {
        self.0.at
    }
}
