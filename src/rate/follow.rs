//! Following the count of a server. The server reports in its responses how much it would still
//! admit.
//!
//! A response is old when it is read: the server has counted the call of a charge, and reports the
//! remaining capacity of that moment. The used part of the limit at that moment, minus the use by
//! this limiter, is the use by others.
//!
//! 1. The use by others counts beside the charges of this limiter, so following only ever makes a
//!    limiter admit less, except that a window may end earlier.
//! 2. Others are assumed to continue in the same way. In a log, their use stays the same. In a
//!    fixed window, it grows evenly until the end. In a bucket, nobody knows who takes the refill,
//!    so none of it is counted in advance: the count of the server and the charges since then
//!    count, and the difference is charged.

use std::collections::VecDeque;
use std::time::Duration;

use super::RateLimiter;
use super::acquire::Limiter;
use super::charge::Charge;
use super::locked::Locked;
use crate::algorithm::{OfOthers, Receipt};
use crate::time::Tick;

/// Following a server.
impl RateLimiter {
    /// Brings the limiter in step with a server's count: `used` is the server's limit minus the remaining
    /// part, from its response to the call that this charge was made for, and `reset_after` the time until
    /// its count restarts.
    ///
    /// If others use the server's limit too, the server has counted more than this limiter. The
    /// difference counts as used here too: afterwards, the available capacity is at most the limit
    /// less `used`, and less the charges made after this charge. Following never makes the limiter
    /// admit more, except that a fixed window may end earlier, see below. The use in a response is
    /// ignored if a response to a later charge was followed before, or if the charge is from before
    /// a [`set_quota`](Self::set_quota) or a [pause](Self::pause_for), or of another limiter.
    ///
    /// The response should report the server's count at the arrival of the call. If it reports the
    /// count at the time when it is written, later calls may count twice until the next response,
    /// so the limiter is too careful. The server does not count a refused call:
    /// [refund](Self::refund) its charge after this call.
    ///
    /// The limiter should count like the server, with an [algorithm](Self::algorithm) like the
    /// server's, and a quota that is somewhat lower: reserve 2 % of the limit, and at least 2, for
    /// the use by others while a response is under way. Not all calls take equally long to the
    /// server, so make the period longer than the server's by a thousandth, unless it is that of a
    /// fixed window.
    ///
    /// | the server counts by | algorithm | the use by others |
    /// |---|---|---|
    /// | a bucket that refills evenly | `Gcra`, with its burst | is paid off by time, but not before the response is read: others may use the refill until then |
    /// | a fixed window | `FixedWindow` | grows evenly until the window ends, `reset_after` after the charge, to at most twice the reported use |
    /// | a sliding log, or a sliding window | the same | stays the same until the next response; after a period without one, a call may go alone |
    ///
    /// Any other algorithm counts in the same way as `Gcra`, and the limiter is too careful.
    ///
    /// The first response sets the end of a fixed window. Later responses, to any charge, delay
    /// that end, or, once per window, move it up to a hundredth of the period earlier. In such a
    /// window, charges within a thousandth of the period after this one count as if the server had
    /// counted them, because calls overtake one another. Other algorithms ignore `reset_after`.
    ///
    /// A count above twice the burst counts as twice the burst. After the first `follow`, calls
    /// take the lock of the limiter. It remembers at most 4,096 charges without a response, in some
    /// 200 kB; a refund takes a time that is linear in their number. Charges made before the first
    /// `follow` count as if the server had counted them.
    ///
    /// # Spacing
    ///
    /// Suppose that a client always uses up the remaining capacity of a bucket or a log. If others
    /// take a part in a burst, or while the client has no response, the client learns of it only
    /// from refusals. A second limiter in front avoids most of these refusals. It admits at most
    /// twice the remaining capacity in the time in which the bucket refills; for a log of a minute,
    /// in 3 seconds. So the server keeps some capacity. A fixed window needs no second limiter.
    /// This one is for a bucket:
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
        // Every response counts here, because an older one may know better when a window ends.
        let windows = self.shared.config.algorithm.has_windows();
        let count = self.rule.follow(windows, end, now, earlier);
        let own = self.in_use().saturating_sub(self.of_others().cost);
        // This bound keeps a server from stopping the limiter for longer.
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
                    // Without this difference, calls of this limiter would look like those of
                    // others until the end.
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
                    // The use by others never shrinks in a window, but calls reach the server in
                    // another order.
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

/// The charges of others to a server, beside the charges of this limiter.
#[derive(Clone, Copy, Default)]
pub(super) struct OthersUse {
    /// Their cost at present.
    pub(super) cost: u64,
    /// The tick at which the cost ends, or is no longer known.
    pub(super) until: Tick,
    /// The growth of the cost until then, if it grows.
    pub(super) growth: Option<Growth>,
}

/// The cost that an answer told, the tick of its charge, and the time that had passed in the window
/// at that tick.
#[derive(Clone, Copy)]
pub(super) struct Growth {
    pub(super) told: u64,
    pub(super) at: Tick,
    pub(super) passed: Duration,
}

impl OthersUse {
    /// Updates the cost to a tick. If the cost grows, it is at most twice the told cost, because
    /// little is known about a window that has just begun.
    pub(super) fn settle(&mut self, now: Tick) {
        let Some(Growth { told, at, passed }) = self.growth else {
            return;
        };
        if self.until <= now {
            return *self = Self::default();
        }
        let passed_now = passed.saturating_add(now.saturating_since(at));
        let grown = (u128::from(told) * passed_now.as_nanos()).checked_div(passed.as_nanos());
        let most = u128::from(told) * 2;
        self.cost = grown.map_or(told, |it| u64::try_from(it.min(most)).unwrap_or(u64::MAX));
    }
}

/// The maximum number of remembered charges without an answer.
const KEPT: usize = 4096;

/// The charges that a limiter remembers until a server has answered them.
///
/// An answer is newer than the last one only if its charge is later. So a record is kept until its
/// charge or a later one is answered, and at most [`KEPT`] records are kept: an answer to a charge
/// without a record counts as if the charge had just been made.
#[derive(Default)]
pub(super) struct Followed {
    /// The ticket of the newest charge that was answered.
    answered: u64,
    /// The cost of all calls.
    charged: u128,
    charges: VecDeque<Record>,
    /// The use by others. If the rule counts by windows, it lasts until the present window ends,
    /// even if its cost is 0.
    pub(super) of_others: OthersUse,
}

/// The state just after a charge.
struct Record {
    ticket: u64,
    at: Tick,
    /// The cost of all calls up to this one.
    charged: u128,
    /// The part of it that counted at that time.
    counted: u64,
}

impl Followed {
    /// Forgets all charges. Their tickets are not used again.
    pub(super) fn forget_charges(&mut self) {
        *self = Self {
            of_others: self.of_others,
            ..Self::default()
        };
    }

    /// Remembers a charge, with the counted cost of all charges just after it.
    pub(super) fn remember(&mut self, charge: &Receipt, counted: u64) {
        self.charged = self.charged.wrapping_add(u128::from(charge.cost));
        if self.charges.len() == KEPT {
            self.charges.pop_front();
        }
        self.charges.push_back(Record {
            ticket: charge.ticket,
            at: charge.at,
            charged: self.charged,
            counted,
        });
    }

    /// Removes `cost` of a charge from the counts. The server has not counted it either.
    pub(super) fn refund(&mut self, charge: &Receipt, cost: i128) {
        let first = self.charges.partition_point(|it| it.ticket < charge.ticket);
        for later in self.charges.range_mut(first..) {
            later.charged = later.charged.wrapping_sub(cost as u128);
            let counted = (i128::from(later.counted) - cost).max(0);
            later.counted = u64::try_from(counted).unwrap_or(u64::MAX);
        }
        self.charged = self.charged.wrapping_sub(cost as u128);
    }

    /// Forgets an answered charge, and all earlier ones. Returns `None` if a later charge was
    /// answered before.
    pub(super) fn answer(&mut self, charge: &Receipt, soon: Tick, now: u64) -> Option<Answered> {
        if charge.ticket <= self.answered {
            return None;
        }
        self.answered = charge.ticket;
        let with_it = self.charges.partition_point(|it| it.at <= soon);
        let until_soon = self.charges.range(..with_it).next_back();
        let until_soon = until_soon.map_or(now, |it| it.counted);
        let answered = self
            .charges
            .partition_point(|it| it.ticket <= charge.ticket);
        let newest = self.charges.drain(..answered).next_back();
        let record = newest.filter(|it| it.ticket == charge.ticket);
        let since = record
            .as_ref()
            .map_or(0, |it| self.charged.wrapping_sub(it.charged));
        Some(Answered {
            counted: record.map_or(now, |it| it.counted),
            until_soon,
            since: u64::try_from(since).unwrap_or(u64::MAX),
        })
    }
}

/// The known costs at an answered charge. Without a record of it, they are those of a charge just
/// made.
pub(super) struct Answered {
    /// The counted cost just after it.
    pub(super) counted: u64,
    /// The same, including charges that may have reached the server before it.
    pub(super) until_soon: u64,
    /// The cost charged since.
    pub(super) since: u64,
}
