//! Following the count of a server, which says in its answers what it would still admit.
//!
//! An answer is old when it is read: the server has counted the call of a charge, and says what was left
//! then. What was missing from the limit then, and was not of this limiter, was of others.
//!
//! 1. What is of others counts beside what this limiter has charged, so a limiter only ever admits less by
//!    following.
//! 2. Others go on as they do. In a log, as much is of them as was then. In a fixed window, it grows evenly
//!    until the end. Of a bucket, nobody knows who takes what is refilled, so nothing of that is counted in
//!    advance: what is left less what was charged since is what there is, and the rest is charged.

use std::time::Duration;

use super::RateLimiter;
use super::acquire::Limiter;
use super::charge::Charge;
use super::locked::Locked;
use crate::algorithm::{OfOthers, Receipt};
use crate::time::Tick;

/// Following a server.
impl RateLimiter {
    /// Brings the limiter in step with what a server says that it would still admit: `remaining` and
    /// `reset_after` of its answer to the call that this charge was made for.
    ///
    /// If others use the server's limit as well, less is left of it than this limiter knows. What is missing
    /// counts as used too, so that afterwards at most `remaining` is available, less what was charged after
    /// this charge. The limiter never admits more by following. The answer to an earlier charge than one
    /// that was followed before says nothing new, and does nothing; so does the answer to a charge from
    /// before a [`set_quota`](Self::set_quota) or a [pause](Self::pause_for), or of another limiter.
    ///
    /// The limiter should count as the server does, by an [algorithm](Self::algorithm) and a quota like the
    /// server's:
    ///
    /// | the server counts by | algorithm | what others use |
    /// |---|---|---|
    /// | a bucket that refills evenly | `Gcra`, with its burst | is paid off by time, but not before the answer is read: they may use what is refilled meanwhile |
    /// | a fixed window | `FixedWindow` | grows evenly until the window ends, `reset_after` after the charge |
    /// | a sliding log, or a sliding window | the same | stays as it is for a period after the charge, or until the next answer |
    ///
    /// The first answer sets when a fixed window ends, and later ones only delay that; other algorithms
    /// ignore `reset_after`. A call is refused all the same if others take what is left while an answer is
    /// under way, or the server counts in another order. So pass somewhat less than `remaining`: 2 % of the
    /// limit, and at least 2.
    ///
    /// From the first call on, calls take the lock of the limiter, which remembers 4,096 charges at most that
    /// were not answered. What was charged before the first call counts as if the server had counted it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_minute(100).burst(100)).clock(Clock::manual());
    /// let charge = limiter.try_acquire()?;
    /// // Somebody else has used 59 of the 100.
    /// limiter.follow(&charge, 40, Duration::from_secs(36));
    /// assert_eq!(limiter.snapshot().available, 40);
    ///
    /// let (first, second) = (limiter.try_acquire()?, limiter.try_acquire()?);
    /// // When the second call was counted, nobody else had come.
    /// limiter.follow(&second, 38, Duration::from_secs(37));
    /// limiter.follow(&first, 39, Duration::from_secs(36));
    /// assert_eq!(limiter.snapshot().available, 38);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn follow(&self, charge: &Charge, remaining: u64, reset_after: Duration) {
        let state = self.shared().state_of(charge);
        state.lock_on_time().follow(charge, remaining, reset_after);
    }
}

impl Locked<'_> {
    /// Remembers a charge, if a server is followed.
    pub(super) fn note(&mut self, receipt: &Receipt) {
        if self.followed.is_none() || receipt.cost == 0 {
            return;
        }
        let held = u64::try_from(self.held).unwrap_or(u64::MAX);
        let counted = self.rule.backlog(receipt.at).saturating_add(held);
        if let Some(followed) = &mut self.followed {
            followed.remember(receipt.ticket, receipt.cost, counted);
        }
    }

    fn follow(&mut self, charge: &Charge, remaining: u64, reset_after: Duration) {
        let (receipt, now, limit) = (&charge.0, self.now, self.rule.capacity());
        if receipt.generation != self.generation || self.rule.params().is_unlimited() {
            return;
        }
        let first = self.followed.is_none();
        let counted = self.in_use().saturating_sub(self.of_others.0);
        let followed = self.followed.get_or_insert_default();
        let Some((counted, since)) = followed.answer(receipt.ticket, counted) else {
            return;
        };
        let end = receipt
            .at
            .saturating_add(reset_after.min(self.quota.period()));
        let others = limit.saturating_sub(remaining).saturating_sub(counted);
        match self.rule.follow(receipt.at, end, now, first) {
            OfOthers::Over => {}
            OfOthers::Charged => {
                let most = remaining.saturating_sub(since);
                let taken = self.available().saturating_sub(most);
                self.rule.charge(now, taken);
            }
            OfOthers::Standing(until) => self.of_others = (others, until),
            OfOthers::Growing { begun, end } => {
                let passed = |tick: Tick| tick.as_nanos().saturating_add_signed(-begun);
                self.of_others = (grown(others, passed(receipt.at), passed(now)), end);
            }
        }
        self.renewed = true;
        self.serve();
    }
}

/// Returns how much it is after `now` nanoseconds that was `others` after `then`, if it grows evenly: at most
/// twice as much, because little is known of a window that has just begun.
fn grown(others: u64, then: u64, now: u64) -> u64 {
    let most = u128::from(others) * 2;
    let grown = (u128::from(others) * u128::from(now)).checked_div(u128::from(then));
    let grown = grown.map_or(u128::from(others), |it| it.min(most));
    u64::try_from(grown).unwrap_or(u64::MAX)
}
