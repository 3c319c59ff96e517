//! Observation of a [`RateLimiter`].

use std::time::Duration;

use super::charge::Charge;
use super::limiter::RateLimiter;
use crate::decision::Decision;
use crate::quota::Quota;

/// The state of a limiter at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The most that can be charged at once: the burst.
    pub limit: u64,
    /// What is missing from the limit: charged, and not paid off yet. It is more than the limit
    /// after a [forced](RateLimiter::charge) charge.
    pub in_use: u64,
    /// What could be charged at once if there were no waiters and the limiter were open.
    pub available: u64,
    /// The number of waiters.
    pub waiting: usize,
    /// How long the first waiter has been waiting.
    pub oldest_wait: Option<Duration>,
}

/// Observation.
impl RateLimiter {
    /// Returns the decision that a call of cost 1 would get, without charging it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(3)).clock(Clock::manual());
    /// limiter.try_acquire_many(3)?;
    /// let decision = limiter.peek();
    /// assert_eq!((decision.limit, decision.remaining), (3, 0));
    /// assert_eq!(decision.retry_after, Duration::from_millis(100));
    /// assert_eq!(decision.reset_after, Duration::from_millis(300));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn peek(&self) -> Decision {
        self.peek_many(1)
    }

    /// Returns the decision that a call of cost `n` would get, without charging it.
    ///
    /// While there are waiters, nothing [remains](Decision::remaining). For a closed limiter,
    /// `remaining` is what it would be if the limiter were open.
    /// [`retry_after`](Decision::retry_after) is [`Duration::MAX`] if the call would never be
    /// admitted, because it asks for more than the burst or the limiter is closed. It does not
    /// include [jitter](Self::jitter).
    pub fn peek_many(&self, n: u64) -> Decision {
        let mut locked = self.shared().lock_on_time();
        let mut decision = locked.decision(n);
        if locked.waiting() > 0 {
            decision.remaining = 0;
        }
        decision
    }

    /// Returns the state of the limiter just after one of its own charges, for the headers of a
    /// response. For a charge from before a [`set_quota`](Self::set_quota), it returns the current
    /// state. In a sliding window and a log, calls that were admitted since count as well.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(5)).clock(Clock::manual());
    /// let charge = limiter.try_acquire_many(3)?;
    ///
    /// let decision = limiter.decision(&charge);
    /// assert_eq!((decision.limit, decision.remaining), (5, 2));
    /// assert_eq!(decision.reset_after, Duration::from_millis(300));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn decision(&self, charge: &Charge) -> Decision {
        self.shared().lock_on_time().decision_after(charge)
    }

    /// Returns what could be charged at once if there were no waiters and the limiter were open.
    pub fn available(&self) -> u64 {
        self.shared().lock_on_time().available()
    }

    /// Returns the current quota.
    pub fn quota(&self) -> Quota {
        self.shared().queue().quota
    }

    /// Returns the number of waiters.
    pub fn waiting(&self) -> usize {
        self.shared().queue().waiting()
    }

    /// Returns whether it was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.shared().queue().is_closed()
    }

    /// Returns the state of the limiter at one moment.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(3)).clock(Clock::manual());
    /// limiter.try_acquire()?;
    ///
    /// let snapshot = limiter.snapshot();
    /// assert_eq!((snapshot.limit, snapshot.in_use, snapshot.waiting), (3, 1, 0));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let mut locked = self.shared().lock_on_time();
        let decision = locked.decision(0);
        let now = locked.now();
        Snapshot {
            limit: decision.limit,
            in_use: locked.rule.backlog(now),
            available: decision.remaining,
            waiting: locked.waiting(),
            oldest_wait: locked.oldest().map(|joined| now.saturating_since(joined)),
        }
    }
}
