//! [`Decision`]: what a rate limiter decides about a call, as plain data.

use std::time::Duration;

use crate::time::{Tick, wait_for};

/// The state of a limiter as seen by one call, for the headers of a response. Returned by
/// [`RateLimiter::decision`](crate::RateLimiter::decision) and [`peek`](crate::RateLimiter::peek).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, Quota, RateLimiter};
///
/// let clock = Clock::manual();
/// let limiter = RateLimiter::new(Quota::per_second(10).burst(5)).clock(&clock);
/// let charge = limiter.try_acquire_many(3)?;
///
/// let decision = limiter.decision(&charge);
/// assert_eq!((decision.limit, decision.remaining), (5, 2));
/// assert_eq!(decision.retry_after, Duration::ZERO);
/// assert_eq!(decision.reset_after, Duration::from_millis(300));
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// The most that can be charged at once: the burst.
    pub limit: u64,
    /// The remaining capacity: the cost that could be charged at once after this call without waiters; 0
    /// for a [peek](crate::RateLimiter::peek) while there are waiters.
    pub remaining: u64,
    /// The time until the call would be admitted if no other call came; zero if it is admitted. It
    /// is never early: one nanosecond before, the call would be refused. [`Duration::MAX`] if the
    /// call would never be admitted.
    pub retry_after: Duration,
    /// The time until the whole burst would be available again if there were no waiters and no
    /// other calls.
    pub reset_after: Duration,
    /// The tick of the limiter's clock for which this holds.
    pub at: Tick,
}

impl Decision {
    /// Creates a decision that was made elsewhere, for example by a limiter on a server. The
    /// arguments are the fields in order: the most that can be charged at once, what could be
    /// charged now, the times until the call would be admitted and until everything would be
    /// available, and the tick for which this holds.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Decision, Tick};
    ///
    /// let second = Duration::from_secs(1);
    /// let decision = Decision::from_parts(10, 0, second, 10 * second, Tick::from_nanos(0));
    /// assert_eq!((decision.limit, decision.retry_after), (10, second));
    /// ```
    pub const fn from_parts(
        limit: u64,
        remaining: u64,
        retry_after: Duration,
        reset_after: Duration,
        at: Tick,
    ) -> Self {
        Self {
            limit,
            remaining,
            retry_after,
            reset_after,
            at,
        }
    }

    /// Creates the decision at a tick: so much of the limit is in use, the call is due at `due`, and
    /// nothing is in use any more at `reset`.
    pub(crate) fn at(at: Tick, limit: u64, in_use: u64, due: Tick, reset: Tick) -> Self {
        Self {
            limit,
            remaining: limit.saturating_sub(in_use),
            retry_after: wait_for(due, at),
            reset_after: wait_for(reset, at),
            at,
        }
    }
}
