//! The reports of throttles, as plain data: [`Snapshot`], the state of a throttle; [`Decision`], the decision of a
//! rate limiter about a call; and [`LimitStatus`], for adapters that report limits.

use std::time::Duration;

use crate::quota::Quota;
use crate::time::{Tick, wait_for};

/// The state of a throttle at one moment, in the same shape for all types: `snapshot()` returns it.
/// Three types return more: an [`AdaptiveSemaphore`], an
/// [`AdaptiveRate`] and a [`FairQueue`](crate::fair::FairQueue).
///
/// # Consistency
///
/// All numbers belong to one moment, with two exceptions. A `ChannelSemaphore` reads them one after the
/// other, and a [`Gate`](crate::Gate) may be blocked or opened between two of them. Reading takes the lock of
/// the throttle briefly and never waits for callers.
///
/// # Examples
///
/// ```
/// use tollgate::{Clock, Quota, RateLimiter, Semaphore, Snapshot};
///
/// /// The share of a limit that is in use, for a dashboard.
/// fn utilization(snapshot: Snapshot) -> f64 {
///     snapshot.in_use as f64 / snapshot.limit as f64
/// }
///
/// let slots = Semaphore::new(8);
/// let permits = slots.try_acquire_many(6)?;
/// assert_eq!(utilization(slots.snapshot()), 0.75);
///
/// let bytes = RateLimiter::new(Quota::per_second(1000).burst(1000)).clock(Clock::manual());
/// bytes.try_acquire_many(500)?;
/// assert_eq!(utilization(bytes.snapshot()), 0.5);
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
///
/// [`AdaptiveSemaphore`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveSemaphore.html
/// [`AdaptiveRate`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveRate.html
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The most that can be taken at once: the number of permits or items, or the burst of a rate.
    /// A gate, which does not count, has `u64::MAX`.
    pub limit: u64,
    /// How much of the limit is in use: permits held, or charges not yet paid off. It is more than the limit
    /// after the limit was lowered, and after a [forced](crate::RateLimiter::charge) charge. It is always 0
    /// for a gate, and the limit for a rate that is [paused](crate::RateLimiter::pause_for).
    pub in_use: u64,
    /// The amount that could be taken at once if there were no waiters and the throttle were not closed. It
    /// is 0 for a gate that is blocked.
    pub available: u64,
    /// The number of waiters. A waiter that has been granted its request does not count, even if it has not
    /// been polled since.
    pub waiting: usize,
    /// How long the first waiter has been waiting. `None` if there is no waiter, and for a throttle without a
    /// clock: only rates have it.
    pub oldest_wait: Option<Duration>,
}

impl Snapshot {
    /// Returns the state of a throttle without a clock. After its limit was lowered, more than the limit may
    /// be in use.
    pub(crate) fn of_permits(limit: usize, in_use: usize, waiting: usize) -> Self {
        Self {
            limit: limit as u64,
            in_use: in_use as u64,
            available: limit.saturating_sub(in_use) as u64,
            waiting,
            oldest_wait: None,
        }
    }
}

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
/// assert_eq!(decision.retry_after, Some(Duration::ZERO));
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
    /// The time until the call would be admitted if no other call came; zero if it is admitted. It is never
    /// too early: one nanosecond before, the call would be refused. `None` if waiting does not help, because
    /// the call would never be admitted, or if the time is unknown, because a
    /// [hold](crate::RateLimiter::hold) has to be settled, or to end, first.
    ///
    /// The [error](crate::AcquireError::retry_after) of a refused call tells these two apart.
    pub retry_after: Option<Duration>,
    /// The time until the whole burst would be available again if there were no waiters and no
    /// other calls.
    pub reset_after: Duration,
    /// The tick of the limiter's clock for which this decision holds.
    pub at: Tick,
}

impl Decision {
    /// Creates a decision that was made elsewhere, for example by a limiter on a server. The
    /// arguments are the fields in order: the most that can be charged at once, the amount that could be
    /// charged now, the time until the call would be admitted, the time until everything would be available, and
    /// the tick for which this holds.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Decision;
    /// use tollgate::time::Tick;
    ///
    /// let second = Duration::from_secs(1);
    /// let decision = Decision::from_parts(10, 0, Some(second), 10 * second, Tick::from_nanos(0));
    /// assert_eq!((decision.limit, decision.retry_after), (10, Some(second)));
    /// ```
    pub const fn from_parts(
        limit: u64,
        remaining: u64,
        retry_after: Option<Duration>,
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

    /// Creates the decision at a tick: this much of the limit is in use, the call is due at `due`, and
    /// nothing is in use any more at `reset`.
    pub(crate) fn at(at: Tick, limit: u64, in_use: u64, due: Tick, reset: Tick) -> Self {
        Self {
            limit,
            remaining: limit.saturating_sub(in_use),
            retry_after: (!due.is_never()).then(|| due.saturating_since(at)),
            reset_after: wait_for(reset, at),
            at,
        }
    }
}

/// The present allowance of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitStatus {
    /// A rate limiter.
    Rate {
        /// The quota.
        quota: Quota,
        /// The decision that a call of cost 1 would get now. A limiter across machines cannot know that, and
        /// reports the decision that admitted the caller.
        decision: Decision,
    },
    /// A concurrency throttle.
    Concurrency {
        /// The number of permits.
        limit: u64,
        /// The number of free permits.
        available: u64,
    },
    /// Not available, for example for a gate or for `None`.
    Unknown,
}

impl LimitStatus {
    pub(crate) fn concurrency(snapshot: Snapshot) -> Self {
        Self::Concurrency {
            limit: snapshot.limit,
            available: snapshot.available,
        }
    }
}
