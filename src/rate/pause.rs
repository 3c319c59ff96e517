//! Pauses, for example for the `Retry-After` of a service.

use std::time::Duration;

use super::RateLimiter;
use crate::time::Tick;

/// Pauses.
impl RateLimiter {
    /// Pauses the limiter for `duration` from now, unless it is already paused for longer. Use it
    /// for the `Retry-After` of a service.
    ///
    /// No call, queued or new, is admitted before the end. At the end the burst is spent, except
    /// for one token: so waiters are admitted one by one at the rate, in their order, and the burst
    /// refills over time. The times in errors, decisions and reservations include the pause, and a
    /// timeout that ends before the end of the pause refuses a new call at once; one that waits
    /// already fails when its timeout ends.
    ///
    /// An algorithm that gives back a batch at once admits one call at the end, and then its
    /// batches. A sliding window may take longer to admit the second call. A sliding log spaces its
    /// calls evenly, but if its clock began less than a period before the end, it keeps its burst.
    /// A call that asks for 0, the buffer of a [local handle](Self::local), and a forced
    /// [charge](Self::charge) are not delayed. Charges from before the pause can no longer be
    /// refunded. A change of the quota does not change the end.
    ///
    /// A duration of zero does nothing. [`resume`](Self::resume) ends a pause. One that would end more
    /// than nine years after the epoch of the clock, such as [`Duration::MAX`], never ends by itself.
    /// The usage of a [hold](Self::hold) that began before a pause counts at its beginning: at the
    /// end of the pause, the larger of that and the spent burst is owed. On [tokio's
    /// time](crate::Clock#limiters-that-are-used-in-several-runtimes) a pause is that of the
    /// current runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(5)).clock(&clock);
    /// limiter.pause_for(Duration::from_secs(60));
    /// let refused = limiter.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_secs(60)));
    ///
    /// clock.advance(Duration::from_secs(60));
    /// limiter.try_acquire()?;
    /// let refused = limiter.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn pause_for(&self, duration: Duration) {
        self.change(|ledger, now| ledger.pause(duration, now));
    }

    /// Ends a [pause](Self::pause_for), as if it had been asked to end now: the burst is spent,
    /// except for one token, and waiters are admitted one by one at the rate. What was
    /// [charged](Self::charge) during the pause is owed beyond that. Does nothing if the limiter is
    /// not paused.
    ///
    /// Earlier charges can no longer be refunded. In a [log](crate::Algorithm::SlidingLog) this
    /// takes a time that is linear in the count, like a pause.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(5)).clock(Clock::manual());
    /// limiter.pause_for(Duration::MAX);
    /// assert!(limiter.try_acquire().is_err());
    /// limiter.resume();
    /// limiter.try_acquire()?;
    /// let refused = limiter.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn resume(&self) {
        self.change(|ledger, now| ledger.resume(now));
    }

    /// Returns the tick of its clock at which a [pause](Self::pause_for) ends; `None` if the
    /// limiter is not paused. The `retry_after` of [`peek`](Self::peek) is the time from now until
    /// then.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let limiter = RateLimiter::new(Quota::per_second(10)).clock(&clock);
    /// let end = clock.now().saturating_add(Duration::from_secs(60));
    /// limiter.pause_for(Duration::from_secs(60));
    /// assert_eq!(limiter.paused_until(), Some(end));
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(limiter.paused_until(), None);
    /// ```
    pub fn paused_until(&self) -> Option<Tick> {
        self.locked(|locked| locked.ledger.paused_until())
    }
}
