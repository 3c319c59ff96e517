//! Following the count of a server, which says in its answers what it would still admit.
//!
//! An answer is old when it is read: the server has counted the call of a charge, and says what was left
//! then. Since then, other calls of this limiter were charged, which the server had not counted.
//!
//! 1. What the limiter would admit now, more than was left less what it has charged since that charge, was
//!    taken by others: it is charged as well, as of now. So a limiter only ever admits less by following.
//!    What it is charged by this is no call, and no part of what it has charged since.
//! 2. Nobody knows who will take what the server refills, so nothing of that is counted in advance. Only
//!    what leaves a log since then leaves that of the server too.
//! 3. Only an answer to a later charge than the last one is newer. So a record of each charge is kept until
//!    that or a later one is answered, and at most [`KEPT`].

use std::collections::VecDeque;
use std::time::Duration;

use super::RateLimiter;
use super::acquire::Limiter;
use super::charge::Charge;
use super::locked::Locked;
use crate::algorithm::Receipt;

/// How many charges are remembered that were not answered.
const KEPT: usize = 4096;

/// What a limiter knows of a server.
#[derive(Default)]
pub(super) struct Followed {
    /// The ticket of the newest charge that was answered.
    answered: u64,
    /// The sums of now, with what belongs to the newest charge.
    last: Record,
    charges: VecDeque<Record>,
}

/// The state just after a charge.
#[derive(Clone, Copy, Default)]
struct Record {
    ticket: u64,
    /// The cost of all calls until then.
    charged: u128,
    /// All that was charged for others until then.
    of_others: u128,
    backlog: u64,
}

/// Following a server.
impl RateLimiter {
    /// Brings the limiter in step with what a server says that it would still admit: `remaining` and
    /// `reset_after` of its answer to the call that this charge was made for.
    ///
    /// If others use the server's limit as well, it has less left than this limiter knows. Then the
    /// difference is charged: afterwards the limiter admits at most `remaining`, less what was charged
    /// after this charge. It never admits more by following. An answer to an earlier charge than the one
    /// of an answer before says nothing new, and does nothing; so does one to a charge from before a
    /// [`set_quota`](Self::set_quota) or a [pause](Self::pause_for), or of another limiter.
    ///
    /// The limiter should count as the server does, by an [algorithm](Self::algorithm) and a quota like
    /// its own:
    ///
    /// | the server counts by | algorithm | what is assumed |
    /// |---|---|---|
    /// | a bucket that refills evenly | `Gcra`, with its burst | others may take what is refilled since the charge |
    /// | a fixed window | `FixedWindow` | the window ends `reset_after` after the charge; the first answer sets this, later ones only delay the end |
    /// | a sliding log | `SlidingLog` | what became a period old since the charge is free again |
    ///
    /// `reset_after` matters only to a fixed window. What the server counts differently than this limiter,
    /// and what others take while an answer is under way, is seen by a refusal; so pass somewhat less than
    /// the server says, for example 2 % of its limit. The first call counts what is charged from then on
    /// only, and from then on all calls take the lock of the limiter.
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
    /// Keeps a record of a charge, if a server is followed.
    pub(super) fn note(&mut self, receipt: &Receipt) {
        let queue = &mut **self;
        let Some(followed) = queue.followed.as_mut().filter(|_| receipt.cost > 0) else {
            return;
        };
        followed.last.ticket = receipt.ticket;
        followed.last.charged += u128::from(receipt.cost);
        followed.last.backlog = queue.rule.backlog(receipt.at);
        if followed.charges.len() == KEPT {
            followed.charges.pop_front();
        }
        followed.charges.push_back(followed.last);
    }

    fn follow(&mut self, charge: &Charge, remaining: u64, reset_after: Duration) {
        let (receipt, now) = (&charge.0, self.now);
        if receipt.generation != self.generation || self.rule.params().is_unlimited() {
            return;
        }
        let first = self.followed.is_none();
        let mut followed = self.followed.take().unwrap_or_default();
        if receipt.ticket > followed.answered {
            followed.answered = receipt.ticket;
            let reset_after = reset_after.min(self.quota.period());
            let end = receipt.at.saturating_add(reset_after);
            if self.rule.follow_window(end, now, first) {
                let most = self.most_by(&mut followed, receipt, remaining);
                let taken = self.available().saturating_sub(most);
                let taken = self.rule.charge(now, taken).cost;
                followed.last.of_others += u128::from(taken);
            }
        }
        self.followed = Some(followed);
        self.renewed = true;
        self.serve();
    }

    /// Returns the most that the server would admit now, if `remaining` was left after a charge.
    fn most_by(&mut self, followed: &mut Followed, receipt: &Receipt, remaining: u64) -> u64 {
        let charges = &mut followed.charges;
        let answered = charges.partition_point(|it| it.ticket <= receipt.ticket);
        let newest = charges.drain(..answered).next_back();
        let record = newest.filter(|it| it.ticket == receipt.ticket);
        let (now, last) = (self.now, &followed.last);
        let then = record.unwrap_or(*last);
        let charged = last.charged - then.charged;
        let gone = match self.rule.ring() {
            Some(_) if record.is_some() => {
                let both = charged + last.of_others - then.of_others;
                let backlog = self.rule.backlog(now);
                (u128::from(then.backlog) + both).saturating_sub(u128::from(backlog))
            }
            _ => 0,
        };
        let most = (u128::from(remaining) + gone).saturating_sub(charged);
        u64::try_from(most).unwrap_or(u64::MAX)
    }
}
