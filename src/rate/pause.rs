//! Pauses, and the burst that is spent at their end.
//!
//! 1. A pause spends the burst as of its end, except for one token, and begins a generation:
//!    earlier charges can no longer be refunded. The longest pause wins.
//! 2. A change of the quota does not change the end. The part that the pause has spent is no
//!    backlog, so it is not scaled; forced charges beyond it are. A log keeps its charges at their
//!    ticks.

use std::time::Duration;

use super::RateLimiter;
use super::acquire::Limiter;
use super::followed::OthersUse;
use super::locked::Locked;
use crate::algorithm::{QuotaChange, tick_or_never};
use crate::time::Tick;

/// Pauses.
impl RateLimiter {
    /// Pauses the limiter for `duration` from now, unless it is already paused for longer. Use it
    /// for the `Retry-After` of a service.
    ///
    /// No call, queued or new, is admitted before the end. At the end the burst is spent, except
    /// for one token: so waiters are admitted one by one at the rate, in their order, and the burst
    /// refills over time. The times in errors, decisions and reservations include the pause, and a
    /// timeout that ends before the pause refuses the call at once.
    ///
    /// An algorithm that gives back a batch at once admits one call at the end, and then its
    /// batches. A sliding window may take longer to admit the second call. A sliding log spaces its
    /// calls evenly, but if its clock began less than a period before the end, it keeps its burst.
    /// A call that asks for 0, the buffer of a [local handle](Self::local), and a forced
    /// [charge](Self::charge) are not delayed. Charges from before the pause can no longer be
    /// refunded. A change of the quota does not change the end.
    ///
    /// A duration of zero does nothing. A pause cannot be cancelled. One that would end more than
    /// nine years after the epoch of the clock, such as [`Duration::MAX`], never ends. On [tokio's
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
        self.shared().locked(|locked| locked.pause_for(duration));
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
        let paused = |locked: &mut Locked<'_>| locked.is_paused().then_some(locked.paused_until);
        self.shared().locked(paused)
    }
}

impl Locked<'_> {
    pub(super) fn is_paused(&self) -> bool {
        self.now < self.paused_until
    }

    /// Pauses the limiter, unless it is already paused for longer. Afterwards it admits calls one
    /// by one.
    fn pause_for(&mut self, duration: Duration) {
        let until = self.now.saturating_add(duration);
        if until <= self.now || until <= self.paused_until {
            return;
        }
        self.paused_until = tick_or_never(until.as_nanos());
        self.rule.spend_burst(until);
        self.begin_generation();
        // The whole burst is spent, so the use by others is already included.
        if let Some(followed) = &mut self.followed {
            followed.of_others = OthersUse::default();
        }
        self.restart_timing();
    }

    /// Changes the rule to the present quota; a pause still ends at the same tick. Returns `false`
    /// if that quota means the same as the last one.
    pub(super) fn change_rule(&mut self, how: QuotaChange) -> bool {
        let (now, until) = (self.now, self.paused_until);
        let (paused, old) = (self.is_paused(), self.rule.capacity());
        // The charges beyond the burst at the end of the pause.
        let beyond = if paused {
            self.rule.backlog(until).saturating_sub(old - 1)
        } else {
            0
        };
        let promise = self.shared.config.algorithm.promise(self.quota);
        let is_log = self.rule.ring().is_some();
        let carried = Some(how).filter(|_| !paused || is_log);
        let changed = self.rule.change(&promise, carried, now);
        if changed && paused {
            self.rule.spend_burst(until);
            if !is_log {
                let new = self.rule.capacity();
                let kept = |spent| how.kept(spent, old, new);
                let forced = kept(old.saturating_add(beyond)) - kept(old);
                self.rule.charge(until, forced);
            }
        }
        changed
    }
}
