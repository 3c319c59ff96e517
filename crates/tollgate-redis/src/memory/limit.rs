//! [`Limit`]: a rate limit under a key: a limiter of tollgate, and its charges that may be refunded.
//!
//! 1. The limiter decides, and finds by each charge what of it can be refunded. A client knows a charge by the number of
//!    all units that were charged until then, so the charges are kept by that number.
//! 2. The clock of the limiter stands still during a call.
//! 3. While a reservation is to come, only the last charge is refunded, as on a server: the others keep their times.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::RedisResult;
use tollgate::rate::{Charge, Oversize, QuotaChange};
use tollgate::time::ManualClock;
use tollgate::{Algorithm, RateLimiter};

use super::arguments::failed;
use super::rule::Rule;
use super::turns::Turns;
use crate::script::{MOST, POSITIONS, micros};

/// The maximum number of charges that are kept for refunds.
const MOST_KEPT: usize = 1 << 16;

/// The maximum number of charges for the units of a call that may be refunded apart. Beyond it a charge is for several
/// units: once a part of it is refunded, the rest stays charged.
const MOST_APART: u64 = 4096;

/// The maximum number of units of a log in one charge, as for a server.
const MOST_LOGGED: u64 = 1 << 16;

/// A charge that may be refunded.
struct Made {
    charge: Charge,
    n: u64,
    /// The microsecond of the call.
    at: u64,
    /// The microsecond from which on it may be used.
    due: u64,
}

/// The last reservation, if it is to come.
#[derive(Default)]
struct Reserved {
    /// The latest microsecond of all reservations.
    until: u64,
    /// That of those before the last one.
    before: u64,
    /// The position of the last one, and what lies before it and is too little for it.
    last: Option<(u64, Charge)>,
}

pub(super) struct Limit {
    pub(super) rule: Rule,
    limiter: RateLimiter,
    /// Distinguishes this limit from an earlier one, whose charges are not known any more.
    made: u64,
    /// The number of all units that were ever charged, less those of the last charges that were refunded.
    end: u64,
    charges: BTreeMap<u64, Made>,
    reserved: Reserved,
    pub(super) turns: Turns,
}

impl Limit {
    pub(super) fn new(rule: Rule, clock: &ManualClock, now: u64) -> RedisResult<Self> {
        let limiter = RateLimiter::new(rule.quota()?)
            .algorithm(rule.algorithm)
            .oversize(Oversize::Overdraft)
            .clock(clock);
        Ok(Self {
            rule,
            limiter,
            // 0 is the identity of no limit.
            made: now.max(1),
            end: 0,
            charges: BTreeMap::new(),
            reserved: Reserved::default(),
            turns: Turns::default(),
        })
    }

    /// Counts by another rule from now on. Earlier charges cannot be refunded then.
    pub(super) fn change(&mut self, rule: Rule, clock: &ManualClock, now: u64) -> RedisResult<()> {
        if rule == self.rule {
            return Ok(());
        }
        let next = (self.made + 1).max(now);
        if rule.algorithm == self.rule.algorithm {
            self.limiter
                .set_quota_with(rule.quota()?, QuotaChange::KeepSpent);
            (self.rule, self.made) = (rule, next);
            self.charges.clear();
            return Ok(());
        }
        if !rule.algorithm.keeps_a_word() || !self.rule.algorithm.keeps_a_word() {
            return Err(failed("the key holds something else"));
        }
        let owed = self.limiter.snapshot().in_use;
        *self = Self::new(rule, clock, next)?;
        self.limiter.charge(owed);
        Ok(())
    }

    /// Returns whether a reservation is to come.
    pub(super) fn is_reserved(&self, now: u64) -> bool {
        self.reserved.until > now
    }

    /// Returns whether nothing is owed.
    pub(super) fn is_at_rest(&self) -> bool {
        self.limiter.snapshot().in_use == 0
    }

    pub(super) fn free(&self) -> u64 {
        self.limiter.snapshot().available
    }

    /// Returns the microseconds until everything is available.
    pub(super) fn reset(&self) -> u64 {
        up(self.limiter.peek().reset_after)
    }

    /// Returns the microseconds until `n` can be charged.
    pub(super) fn wait(&self, n: u64) -> u64 {
        self.limiter.peek_many(n).retry_after.map_or(MOST, up)
    }

    /// Returns the position of the last charge, and the identity of the limit.
    pub(super) fn ticket(&self, now: u64) -> [u64; 2] {
        match self.rule.algorithm {
            // All charges of a microsecond are alike.
            Algorithm::SlidingWindow => [now, self.made],
            Algorithm::SlidingLog => [self.end, self.made],
            _ => [self.end % POSITIONS, self.made],
        }
    }

    /// Charges `n` in any case.
    pub(super) fn charge(&mut self, n: u64, now: u64) -> RedisResult<()> {
        self.charge_by(n, now, now)
    }

    /// Charges `n` of tokens that are taken in advance: each may be refunded.
    pub(super) fn charge_tokens(&mut self, n: u64, now: u64) -> RedisResult<()> {
        self.check_cost(n)?;
        self.charge_apart(n, now, now);
        Ok(())
    }

    /// Charges `n`, to be used in a microsecond that is to come.
    pub(super) fn reserve(&mut self, n: u64, due: u64, now: u64) -> RedisResult<()> {
        let skipped = self.limiter.charge(self.skipped(due, now));
        self.charge_by(n, due, now)?;
        let until = if self.reserved.until > now {
            self.reserved.until
        } else {
            0
        };
        self.reserved = Reserved {
            until: until.max(due),
            before: until,
            last: Some((self.ticket(now)[0], skipped)),
        };
        Ok(())
    }

    /// Returns the units that lie before a reservation, and that nobody can use because they are too few for it.
    fn skipped(&self, due: u64, now: u64) -> u64 {
        if due <= now {
            return 0;
        }
        let Rule {
            algorithm,
            count,
            period,
            ..
        } = self.rule;
        match algorithm {
            Algorithm::Gcra => 0,
            Algorithm::TokenBucket => {
                let steps = due / period - now / period;
                (steps * count).saturating_sub(self.limiter.snapshot().in_use)
            }
            _ => self.free(),
        }
    }

    fn charge_by(&mut self, n: u64, due: u64, now: u64) -> RedisResult<()> {
        self.check_cost(n)?;
        if self.rule.algorithm == Algorithm::SlidingWindow {
            // The charges of a microsecond are alike in a window, so each unit of them may be refunded.
            self.charge_apart(n, due, now);
        } else if n > 0 {
            self.charge_together(n, due, now);
        }
        Ok(())
    }

    fn check_cost(&self, n: u64) -> RedisResult<()> {
        if self.rule.algorithm == Algorithm::SlidingLog && n > MOST_LOGGED {
            return Err(failed("an argument is too large"));
        }
        Ok(())
    }

    /// Charges `n` in charges of a unit each, or of a few.
    fn charge_apart(&mut self, n: u64, due: u64, now: u64) {
        let (unit, mut left) = (n.div_ceil(MOST_APART), n);
        while left > 0 {
            let some = unit.min(left);
            self.charge_together(some, due, now);
            left -= some;
        }
    }

    fn charge_together(&mut self, n: u64, due: u64, now: u64) {
        let charge = self.limiter.charge(n);
        self.end += n;
        let at = now;
        self.charges.insert(self.end, Made { charge, n, at, due });
        if self.charges.len() > MOST_KEPT {
            self.charges.pop_first();
        }
    }

    /// Gives a charge of `n` back, which ended at a position, and was due in a microsecond: what is not paid off.
    pub(super) fn give(&mut self, n: u64, position: u64, made: u64, due: u64, now: u64) {
        if made != self.made {
            return;
        }
        let behind = self.end.wrapping_sub(position) % POSITIONS;
        let end = self.end.saturating_sub(behind);
        match self.rule.algorithm {
            Algorithm::Gcra if due > now => self.give_turn(n, end, due, now),
            Algorithm::SlidingWindow if position == now || !self.is_reserved(now) => {
                self.refund_of(n, position);
                self.drop_reservation(position, now);
            }
            Algorithm::SlidingWindow => {}
            _ if end == self.end => {
                self.refund(n, end);
                self.end = self.end.saturating_sub(n);
                self.drop_reservation(position, now);
            }
            _ if self.is_reserved(now) => {}
            _ => self.refund(n, end),
        }
    }

    /// Refunds `n` units of the charges of a microsecond, which are alike in a window.
    fn refund_of(&mut self, n: u64, at: u64) {
        let mut left = n;
        while left > 0 {
            let mut same = self.charges.iter().rev().filter(|(_, it)| it.at == at);
            let Some((&end, _)) = same.next() else {
                return;
            };
            left -= self.refund_one(left, end);
        }
    }

    /// Gives a turn back that is to come: it is refunded if nothing is charged behind it. Otherwise the turns behind it
    /// keep their ticks, so its own is open.
    fn give_turn(&mut self, n: u64, end: u64, due: u64, now: u64) {
        if end != self.end || due < self.reserved.until {
            self.turns.add(due, n, end);
            return;
        }
        self.refund(n, end);
        self.end = self.end.saturating_sub(n);
        let last = self.charges.last_key_value().map_or(0, |(_, it)| it.due);
        let until = if last > now { last } else { 0 };
        self.reserved = Reserved {
            until: until.max(self.turns.last()),
            ..Reserved::default()
        };
    }

    /// Reserves a turn of `n`, which is due after a wait, perhaps one that is open. Returns the position of its charge.
    pub(super) fn occupy(
        &mut self,
        n: u64,
        wait: u64,
        open: Option<usize>,
        now: u64,
    ) -> RedisResult<u64> {
        let Some(open) = open else {
            self.reserve(n, now + wait, now)?;
            return Ok(self.ticket(now)[0]);
        };
        let position = self.turns.take(open, n, &self.rule);
        self.reserved.until = self.reserved.until.max(self.turns.last());
        Ok(position % POSITIONS)
    }

    /// Refunds the last `n` units before a position, charge by charge, the last one first.
    fn refund(&mut self, n: u64, end: u64) {
        let first = end.saturating_sub(n);
        let charges = self.charges.range(first + 1..);
        let charges = charges.map(|(&last, it)| (last, last - it.n));
        let charges = charges.take_while(|(_, before)| *before < end);
        let parts = charges.map(|(last, before)| (last, last.min(end) - before.max(first)));
        for (last, n) in parts.collect::<Vec<_>>().into_iter().rev() {
            self.refund_one(n, last);
        }
    }

    /// Refunds at most `most` units of the charge at this position. Returns the number of units that it was for, at most
    /// as many.
    fn refund_one(&mut self, most: u64, end: u64) -> u64 {
        let Some(Made { charge, n, .. }) = self.charges.remove(&end) else {
            return most;
        };
        let given = most.min(n);
        self.limiter.settle(charge, n - given);
        given
    }

    /// Refunds what a reservation has skipped, if that was the last one.
    fn drop_reservation(&mut self, position: u64, now: u64) {
        if !self.is_reserved(now) {
            return;
        }
        let is_it = |(last, _): &mut (u64, Charge)| *last == position;
        if let Some((_, skipped)) = self.reserved.last.take_if(is_it) {
            self.limiter.refund(skipped);
            self.reserved.until = self.reserved.before;
        }
    }
}

/// Returns whole microseconds, rounded up.
fn up(time: Duration) -> u64 {
    micros(time.saturating_add(Duration::from_nanos(999)))
}
