//! What can be seen of a [`RateLimiter`].

use std::time::Duration;

use super::charge::Charge;
use super::limiter::RateLimiter;
use crate::decision::Decision;
use crate::quota::Quota;

/// How a limiter stands, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The most that can be had at once: the burst.
    pub limit: u64,
    /// What is missing from the limit: charged, and not paid off yet. More than the limit after a
    /// [forced](RateLimiter::charge) charge.
    pub in_use: u64,
    /// What could be had at once, if nobody waited and it was not closed.
    pub available: u64,
    /// How many are in line.
    pub waiting: usize,
    /// For how long the first of them has been waiting.
    pub oldest_wait: Option<Duration>,
}

/// Observing.
impl RateLimiter {
    /// How the limiter stands for a call that costs 1, which is not made.
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

    /// How the limiter stands for a call that costs `n`, which is not made.
    ///
    /// While somebody waits nothing [remains](Decision::remaining); of one that is closed what
    /// remains is what would if it was open. Its
    /// [`retry_after`](Decision::retry_after) is [`Duration::MAX`] when it would never be admitted:
    /// more is asked for than the burst, or the limiter is closed. [Jitter](Self::jitter) is not
    /// part of it.
    pub fn peek_many(&self, n: u64) -> Decision {
        let mut locked = self.shared().lock_on_time();
        let mut decision = locked.decision(n);
        if locked.waiting() > 0 {
            decision.remaining = 0;
        }
        decision
    }

    /// How the limiter stood just after a charge, which is one of its own: what goes into the
    /// headers of an answer. For a charge of before a [`set_quota`](Self::set_quota), how it stands
    /// now. In a sliding window and a log, what was admitted since counts as well.
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

    /// What could be had at once, if nobody waited and it was not closed.
    pub fn available(&self) -> u64 {
        self.shared().lock_on_time().available()
    }

    /// The quota, as it is now.
    pub fn quota(&self) -> Quota {
        self.shared().queue().quota
    }

    /// How many are in line.
    pub fn waiting(&self) -> usize {
        self.shared().queue().waiting()
    }

    /// Whether it was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.shared().queue().is_closed()
    }

    /// Returns how the limiter stands, at one moment.
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
