//! What can be seen of a [`RateLimiter`], and taken from one process to the next.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::charge::Charge;
use super::limiter::RateLimiter;
use crate::decision::Decision;
use crate::quota::Quota;

/// How a limiter stands, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// What could be had at once, if nobody waited and it was not closed.
    pub available: u64,
    /// How many are in line.
    pub waiting: usize,
    /// For how long the first of them has been waiting.
    pub oldest_wait: Option<Duration>,
    /// The calls so far, if they are [counted](RateLimiter::statistics).
    pub calls: Option<Calls>,
}

/// How many calls came to what, since the limiter was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Calls {
    /// Were charged, at once or after a wait; not those of [`charge`](RateLimiter::charge).
    pub admitted: u64,
    /// Were refused at once: tries, and waits that could not begin. Who is refused while it waits,
    /// as the limiter is closed, is not counted.
    pub denied: u64,
    /// Gave up while they waited.
    pub cancelled: u64,
}

/// What is owed to a limiter, to be [restored](RateLimiter::restore) in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct State {
    quota: Quota,
    /// Nanoseconds until it is paid off.
    owed: u64,
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
        let ahead = self.core().look_ahead(n);
        let retry_after = ahead
            .due
            .map_or(Duration::MAX, |due| due.saturating_since(ahead.now));
        let mut decision = ahead.decision;
        decision.retry_after = retry_after;
        if ahead.waiting > 0 {
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
        self.core().stood(charge)
    }

    /// What could be had at once, if nobody waited and it was not closed.
    pub fn available(&self) -> u64 {
        self.core().look_ahead(0).decision.remaining
    }

    /// The quota, as it is now.
    pub fn quota(&self) -> Quota {
        self.core().lock().quota().unwrap_or(self.first_quota())
    }

    /// How many are in line.
    pub fn waiting(&self) -> usize {
        self.core().lock().len()
    }

    /// Whether it was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.core().lock().is_closed()
    }

    /// How the limiter stands.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10))
    ///     .statistics()
    ///     .clock(Clock::manual());
    /// limiter.try_acquire()?;
    /// assert!(limiter.try_acquire().is_err());
    ///
    /// let snapshot = limiter.snapshot();
    /// assert_eq!((snapshot.available, snapshot.waiting), (0, 0));
    /// let calls = snapshot.calls.unwrap();
    /// assert_eq!((calls.admitted, calls.denied, calls.cancelled), (1, 1, 0));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let core = self.core();
        let ahead = core.look_ahead(0);
        let since = |joined| ahead.now.saturating_since(joined);
        Snapshot {
            available: ahead.decision.remaining,
            waiting: ahead.waiting,
            oldest_wait: ahead.oldest.map(since),
            calls: core.counts.as_ref().map(|counts| Calls {
                admitted: counts.admitted.load(Ordering::Relaxed),
                denied: counts.denied.load(Ordering::Relaxed),
                cancelled: counts.cancelled.load(Ordering::Relaxed),
            }),
        }
    }

    /// What is owed, to be given to [`restore`](Self::restore) when the process has been restarted.
    /// Those in line are not part of it. With the feature `serde` it can be written to a file.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let quota = Quota::per_hour(100).burst(100);
    /// let before = RateLimiter::new(quota).clock(Clock::manual());
    /// before.try_acquire_many(60)?;
    /// let state = before.export();
    ///
    /// // Six minutes later, in another process.
    /// let after = RateLimiter::new(quota).clock(Clock::manual());
    /// after.restore(state, Duration::from_secs(360));
    /// assert_eq!(after.available(), 50);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn export(&self) -> State {
        let core = self.core();
        let ahead = core.look_ahead(0);
        let quota = ahead.quota.unwrap_or(self.first_quota());
        State {
            quota,
            owed: core.config.algorithm.lasting(quota, ahead.owed),
        }
    }

    /// Adds what was owed when the state was [exported](Self::export), less what has been paid off
    /// in the time `since` then. If the quota is another one, what was spent stays spent in
    /// proportion. To be called once, of a limiter that is new: what it is owed already stays.
    ///
    /// Where more than one comes back at once, as in a window or a log, only what has come back for
    /// sure in that time is taken off: windows of another process begin at other times. Those of a
    /// [`TokenBucket`](crate::Algorithm::TokenBucket), a
    /// [`FixedWindow`](crate::Algorithm::FixedWindow) and a
    /// [`SubInterval`](crate::Algorithm::SubInterval) begin anew now, so that their promises hold also
    /// together with what the other process admitted; charges of this limiter from before cannot be
    /// refunded then.
    ///
    /// If this limiter could not have the quota of the state by its algorithm, what is in the state
    /// says nothing to it: then the whole burst is owed, unless nothing was.
    ///
    /// How much time has passed is for the caller to say, as the clocks of processes have nothing
    /// in common but the time of day, which may be set. To say less is safe.
    pub fn restore(&self, state: State, since: Duration) {
        let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let core = self.core();
        let algorithm = core.config.algorithm;
        match algorithm.check(state.quota) {
            Ok(()) => {
                let owed = algorithm.left(state.quota, state.owed, since);
                let (limits, _) = algorithm.limits(state.quota);
                core.owe(owed, limits.tolerance);
            }
            Err(_) => core.owe(u64::from(state.owed > 0), 1),
        }
    }
}
