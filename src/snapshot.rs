//! [`Snapshot`]: what every throttle of this crate says about itself.

use std::time::Duration;

/// The state of a throttle at one moment, in the same shape for all types: `snapshot()` returns it.
/// Three types return more: an [`AdaptiveSemaphore`](crate::adaptive::AdaptiveSemaphore), an
/// [`AdaptiveRate`](crate::adaptive::AdaptiveRate) and a [`FairQueue`](crate::fair::FairQueue).
///
/// # Consistency
///
/// All numbers are of one moment, with two exceptions. A `ChannelSemaphore` reads them one after
/// the other, and a [`Gate`](crate::Gate) may be blocked or opened between two of them. Reading
/// takes the lock of the throttle briefly and never waits for callers.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The most that can be taken at once: the number of permits or items, or the burst of a rate.
    /// A gate, which does not count, has `u64::MAX`.
    pub limit: u64,
    /// What is missing from the limit: permits that are held, or charges that are not paid off yet.
    /// It is more than the limit after the limit was lowered, and after a
    /// [forced](crate::RateLimiter::charge) charge. It is always 0 for a gate, and the limit for a
    /// rate that is [paused](crate::RateLimiter::pause_for).
    pub in_use: u64,
    /// What could be taken at once if there were no waiters and the throttle were not closed. It is
    /// 0 for a gate that is blocked.
    pub available: u64,
    /// The number of waiters. One that was granted what it waits for does not count, even if it has
    /// not been polled since.
    pub waiting: usize,
    /// How long the first waiter has been waiting. `None` if there is none, and for a throttle
    /// without a clock: only rates have it.
    pub oldest_wait: Option<Duration>,
}

impl Snapshot {
    /// Returns the state of a throttle without a clock. After its limit was lowered, more may be in
    /// use.
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
