//! What a rate limiter says about a call: plain data.

use std::time::Duration;

use crate::algorithm::Params;
use crate::time::Tick;

/// How a limiter stands, as seen by one call: what goes into the headers of an answer. Made by
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
    /// The most that can be had at once: the burst.
    pub limit: u64,
    /// What could be had at once after this call, if nobody waited; 0 for a
    /// [peek](crate::RateLimiter::peek) while somebody waits.
    pub remaining: u64,
    /// In how much time the call would be admitted, if nobody else came; zero if it is. Never
    /// early: one nanosecond before, it would be refused. [`Duration::MAX`] if it never would be.
    pub retry_after: Duration,
    /// In how much time the whole burst would be there again, if nobody waited or came.
    pub reset_after: Duration,
    /// The tick of the limiter's clock for which this holds.
    pub at: Tick,
}

impl Decision {
    /// One that was made elsewhere, for example by a limiter on a server: with the most that can be
    /// had at once, what could be had now, in how much time the call would be admitted, and
    /// all could be had, and when this held.
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

    /// With so many units owed, until `reset`.
    pub(crate) fn new(
        params: &Params,
        owed: u64,
        reset: Tick,
        at: Tick,
        retry_after: Duration,
    ) -> Self {
        Self {
            limit: params.burst(),
            remaining: params.tokens(params.burst_tolerance.saturating_sub(owed)),
            retry_after,
            reset_after: reset.saturating_since(at),
            at,
        }
    }
}

/// How long it is until a tick: for ever, if it is never.
pub(crate) fn wait_for(due: Tick, now: Tick) -> Duration {
    if due.is_never() {
        Duration::MAX
    } else {
        due.saturating_since(now)
    }
}
