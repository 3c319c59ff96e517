//! Changing what is owed and what is allowed.

use super::Lines;
use crate::quota::Quota;
use crate::rate::charge::Charge;
use crate::rate::core::Core;
use crate::rate::options::Carry;
use crate::sync::Ordering;

/// The most units that are counted as refunded.
const MOST_REFUNDED: u64 = 1 << 62;

impl Core {
    /// Takes back up to `cost` of a charge.
    pub(in crate::rate) fn refund(&self, charge: &Charge, cost: u64) {
        self.enter_runtime();
        // Whoever is overdue goes first, as of when it was due: the alarm is late, and that is made
        // up for.
        let (mut lines, now) = self.lock_on_time();
        // What was charged under another quota was carried over with all that was spent.
        if charge.generation != self.limits.generation() {
            return;
        }
        let seen = self.cell.hold();
        let limits = self.limits.load::<true>();
        let unit = limits.at(now);
        let (seen, given) = self.take_back(&mut lines.refunds, seen, charge, cost, unit);
        if given {
            lines.timed = now;
        }
        if self.refunded.load(Ordering::Relaxed) > MOST_REFUNDED {
            self.begin_generation(&mut lines);
            self.cell.store(seen.next_epoch(), true);
        } else {
            self.cell.store(seen, true);
        }
        self.settle(lines);
    }

    /// Charges from before cannot be told from one another any more. Only held, and with a new
    /// epoch: a decision which has read one of the two numbers before must not take place.
    fn begin_generation(&self, lines: &mut Lines) {
        lines.generation_from = lines.unserved();
        lines.refunds.clear();
        self.refunded.store(0, Ordering::Relaxed);
        self.limits.begin_generation();
    }

    /// Takes so much, whatever is owed.
    pub(in crate::rate) fn charge(&self, cost: u64) -> Charge {
        self.enter_runtime();
        let (lines, now) = self.lock_on_time();
        let seen = self.cell.hold();
        let limits = self.limits.load::<true>();
        let unit = limits.at(now);
        let (seen, fitted) = self.book(&limits, seen, unit, cost);
        self.cell.store(seen, true);
        let charge = self.receipt(seen, unit, now, fitted);
        self.let_go(&lines);
        charge
    }

    /// Owes this much in addition, in proportion: of another `tolerance`.
    pub(in crate::rate) fn owe(&self, owed: u64, tolerance: u64) {
        self.enter_runtime();
        let (mut lines, now) = self.lock_on_time();
        let mut seen = self.cell.hold();
        if self.limits.load::<true>().step != 0 {
            // When they began for whoever owed it is not known.
            seen = self.begin_steps(seen, now).next_epoch();
            self.begin_generation(&mut lines);
        }
        let limits = self.limits.load::<true>();
        let owed = Carry::Proportional.owed(owed, [tolerance, limits.tolerance], [1, 1]);
        let unit = limits.at(now);
        let seen = match self.rule.as_deref() {
            None => seen.with(seen.debt().owe(unit, owed).end()),
            Some(_) => self.book(&limits, seen, unit, owed).0,
        };
        self.cell.store(seen, true);
        self.let_go(&lines);
    }

    /// Changes the quota, and times the line anew. One that says the same in other words is only
    /// remembered.
    pub(in crate::rate) fn reconfigure(&self, quota: Quota, carry: Carry) {
        self.enter_runtime();
        let (mut lines, now) = self.lock_on_time();
        let old = self.limits.load::<true>();
        if carry != Carry::Reset && self.is_limited_by(&old, quota) {
            lines.quota = Some(quota);
            return;
        }
        let seen = self.cell.hold();
        let before = old.burst();
        let seen = self.change(&old, seen, quota, carry, now);
        let (new, _) = self.config.algorithm.limits(quota);
        let burst = new.burst();
        lines.quota = Some(quota);
        lines.shrunk |= burst < before && !lines.line.is_empty();
        lines.timed = now;
        self.begin_generation(&mut lines);
        self.cell.store(seen, true);
        self.settle(lines);
    }

    /// Owes nothing any more.
    pub(in crate::rate) fn restart(&self) {
        let mut lines = self.lock();
        let seen = self.cell.hold();
        lines.timed = self.clock().now();
        self.begin_generation(&mut lines);
        self.cell.store(self.forget(seen), true);
        // It was set in another runtime.
        self.deadline().disarm();
        self.settle(lines);
    }

    pub(in crate::rate) fn close(&self) {
        let mut lines = self.lock();
        self.cell.hold();
        lines.closed = true;
        self.settle(lines);
    }
}
