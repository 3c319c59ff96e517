//! Following the count of a server, which says in its answers what it would still admit.
//!
//! An answer is old when it is read: the server has counted the call of a charge, and says what was left
//! then. What was missing from the limit then, and was not of this limiter, was of others.
//!
//! 1. What is of others counts beside what this limiter has charged, so a limiter only ever admits less by
//!    following, except that a window may end earlier.
//! 2. Others go on as they do. In a log, as much is of them as was then. In a fixed window, it grows evenly
//!    until the end. Of a bucket, nobody knows who takes what is refilled, so nothing of that is counted in
//!    advance: what the server has counted, and what was charged since, counts, and the rest is charged.

use std::time::Duration;

use super::RateLimiter;
use super::acquire::Limiter;
use super::charge::Charge;
use super::followed::{Growth, OthersUse};
use super::locked::Locked;
use crate::algorithm::{OfOthers, Receipt};

/// Following a server.
impl RateLimiter {
    /// Brings the limiter in step with a server's count: `used` is the server's limit minus the remaining
    /// part, from its response to the call that this charge was made for, and `reset_after` the time until
    /// its count restarts.
    ///
    /// If others use the server's limit as well, it has counted more than this limiter. What is missing
    /// counts as used here too: afterwards, what is available is at most the limit less `used`, and less what
    /// was charged after this charge. The limiter never admits more by following, except that a fixed window
    /// may end earlier, see below. The answer to an earlier charge than one that was followed before says
    /// nothing new about what is used; nor does the answer to a charge from before a
    /// [`set_quota`](Self::set_quota) or a [pause](Self::pause_for), or of another limiter.
    ///
    /// The answer is expected to say what the server had counted when the call came. If it says what is counted
    /// when it is written, later calls may count twice until the next answer, so the limiter is too careful.
    /// A call that was refused is not counted by the server: [refund](Self::refund) its charge after this
    /// call.
    ///
    /// The limiter should count as the server does, by an [algorithm](Self::algorithm) like the server's,
    /// and a quota that is somewhat lower: 2 % of the limit, and at least 2, are for what others take while an
    /// answer is under way. Not all calls take equally long to the server, so let the period be longer than the
    /// server's by a thousandth, unless it is that of a fixed window.
    ///
    /// | the server counts by | algorithm | what others use |
    /// |---|---|---|
    /// | a bucket that refills evenly | `Gcra`, with its burst | is paid off by time, but not before the answer is read: they may use what is refilled meanwhile |
    /// | a fixed window | `FixedWindow` | grows evenly until the window ends, `reset_after` after the charge, to twice what was told at most |
    /// | a sliding log, or a sliding window | the same | stays as it is until the next answer; after a period without one, a call may go alone |
    ///
    /// With any other algorithm it counts as for `Gcra`, and the limiter is too careful.
    ///
    /// The first answer sets when a fixed window ends. Later ones, whatever their charge, delay that, or, once
    /// a window, let it end up to a hundredth of the period earlier. Charges within a thousandth of the
    /// period after this one count as if the server had counted them in such a window, because calls overtake
    /// one another. Other algorithms ignore `reset_after`.
    ///
    /// A count of more than twice the burst counts as twice the burst. From the first call on, calls take the
    /// lock of the limiter, which remembers 4,096 charges at most that were not answered, in some 200 kB; a
    /// refund takes a time that is linear in their number. What was charged before the first call counts as if
    /// the server had counted it.
    ///
    /// # Spacing
    ///
    /// A client that always uses up what is left of a bucket or a log finds out by refusals when others take
    /// something at once, or while it has no answer. A second limiter in front avoids most of these. It admits
    /// no more than twice what is left, in the time in which the bucket refills; for a log of a minute, in 3
    /// seconds. So the server is left with something. A fixed window needs none. This one is for a bucket:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let limiter = RateLimiter::new(Quota::per_minute(98).burst(98)).clock(&clock);
    /// let spacing = RateLimiter::new(Quota::per_minute(2 * 98)).clock(&clock);
    ///
    /// // As `all((spacing, limiter))` does.
    /// spacing.try_acquire()?;
    /// let charge = limiter.try_acquire()?;
    /// // After the answer:
    /// limiter.follow(&charge, 68, Duration::from_secs(41));
    /// let left = limiter.snapshot().available;
    /// spacing.set_quota(Quota::per_minute(2 * left.max(1)));
    /// assert_eq!((left, spacing.quota()), (30, Quota::per_minute(60)));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_minute(98).burst(98)).clock(Clock::manual());
    /// let charge = limiter.try_acquire()?;
    /// // Of the server's 100, 40 remain: somebody else has used 59.
    /// limiter.follow(&charge, 60, Duration::from_secs(36));
    /// assert_eq!(limiter.snapshot().available, 38);
    ///
    /// let (first, second) = (limiter.try_acquire()?, limiter.try_acquire()?);
    /// // When the second call was counted, nobody else had come.
    /// limiter.follow(&second, 62, Duration::from_secs(37));
    /// limiter.follow(&first, 61, Duration::from_secs(36));
    /// assert_eq!(limiter.snapshot().available, 36);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn follow(&self, charge: &Charge, used: u64, reset_after: Duration) {
        let state = self.shared().state_of(charge);
        state.lock_on_time().follow(charge, used, reset_after);
    }
}

impl Locked<'_> {
    /// Returns the receipt of a charge with its generation, and remembers it if a server is followed.
    pub(super) fn note(&mut self, receipt: Receipt) -> Receipt {
        let queue = &mut **self;
        if let Some(followed) = queue.followed.as_mut().filter(|_| receipt.cost > 0) {
            let held = u64::try_from(queue.held).unwrap_or(u64::MAX);
            let counted = queue.rule.backlog(receipt.at).saturating_add(held);
            followed.remember(&receipt, counted);
        }
        Receipt {
            generation: self.generation,
            ..receipt
        }
    }

    /// Forgets a call that the server does not count, if one is followed.
    pub(super) fn forget_call(&mut self, receipt: &Receipt, cost: i128) {
        let known = receipt.generation == self.generation;
        if let Some(followed) = self.followed.as_mut().filter(|_| known) {
            followed.refund(receipt, cost);
        }
    }

    fn follow(&mut self, charge: &Charge, used: u64, reset_after: Duration) {
        let (receipt, now) = (&charge.0, self.now);
        if receipt.generation != self.generation || self.rule.params().is_unlimited() {
            return;
        }
        let period = self.quota.period();
        let end = receipt.at.saturating_add(reset_after.min(period));
        let earlier = match &self.followed {
            None => u64::MAX,
            Some(followed) if followed.of_others.until <= now => self.quota.period_nanos() / 100,
            Some(_) => 0,
        };
        // Of any answer, because an older one may know better when a window ends.
        let windows = self.shared.config.algorithm.has_windows();
        let count = self.rule.follow(windows, end, now, earlier);
        let own = self.in_use().saturating_sub(self.of_others().cost);
        // Nothing that a server says stops the limiter for longer.
        let used = used.min(self.rule.capacity().saturating_mul(2));
        let followed = self.followed.get_or_insert_default();
        let soon = receipt.at.saturating_add(period / 1000);
        let answer = followed.answer(receipt, soon, own);
        if let OfOthers::Growing { end, .. } = count {
            followed.of_others.until = end;
        }
        if let Some(answer) = answer {
            match count {
                OfOthers::Charged => {
                    let missing = used.saturating_add(answer.since).saturating_sub(own);
                    self.rule.charge(now, missing);
                }
                OfOthers::Standing => {
                    followed.of_others = OthersUse {
                        cost: used.saturating_sub(answer.counted),
                        until: receipt.at.saturating_add(period),
                        growth: None,
                    };
                }
                OfOthers::Growing { end, is_of_this } if is_of_this => {
                    // Otherwise calls of this limiter would look like those of others until the end.
                    let others = used.saturating_sub(answer.until_soon);
                    let mut told = OthersUse {
                        cost: others,
                        until: end,
                        growth: Some(Growth {
                            told: others,
                            at: receipt.at,
                            passed: period.saturating_sub(end.saturating_since(receipt.at)),
                        }),
                    };
                    told.settle(now);
                    // It never shrinks, but calls come to the server in another order.
                    if told.cost >= followed.of_others.cost {
                        followed.of_others = told;
                    }
                }
                OfOthers::Growing { .. } => {}
            }
        }
        self.serve();
    }
}
