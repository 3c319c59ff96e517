//! Changing what is owed and what is allowed.

use super::Lines;
use crate::algorithm::{Debt, Limits};
use crate::quota::Quota;
use crate::rate::charge::Charge;
use crate::rate::core::Core;
use crate::rate::options::Carry;
use crate::sync::{MutexGuard, Ordering};

/// The most units that are counted as refunded.
const MOST_REFUNDED: u64 = 1 << 62;

impl Core {
    /// Takes back up to `cost` of a charge.
    pub(in crate::rate) fn refund(&self, charge: &Charge, cost: u64) {
        self.meet();
        self.give_back(self.lock(), charge, cost);
    }

    pub(super) fn give_back<'a>(
        &'a self,
        mut lines: MutexGuard<'a, Lines>,
        charge: &Charge,
        cost: u64,
    ) {
        // What was charged under another quota was carried over with all that was spent.
        if charge.generation != self.limits.generation() {
            return;
        }
        let seen = self.cell.hold();
        let limits = self.limits.load();
        let now = self.clock().now();
        let unit = limits.at(now);
        let total = self.refunded.load(Ordering::Relaxed);
        // No more than is owed: it may be of another limiter.
        let units = limits.of(cost).min(seen.debt().at(unit));
        let given = lines.refunds.give(charge.ticket, units, unit, total);
        if given > 0 {
            lines.timed = now;
            // A decision that has seen what was refunded before must not take place now, not even
            // when the debt has become the same again.
            self.cell.begin_epoch(seen, seen.debt().give(given));
            self.refunded.store(total + given, Ordering::Relaxed);
        }
        if total + given > MOST_REFUNDED {
            self.begin_generation(&mut lines);
        }
        self.settle(lines);
    }

    /// Charges from before cannot be told from one another any more. Only held.
    fn begin_generation(&self, lines: &mut Lines) {
        lines.generation_from = lines.unserved();
        lines.refunds.clear();
        self.refunded.store(0, Ordering::Relaxed);
        self.limits.begin_generation();
    }

    /// Takes so much, whatever is owed.
    pub(in crate::rate) fn charge(&self, cost: u64) -> Charge {
        self.meet();
        let (lines, now) = self.lock_on_time();
        let seen = self.cell.hold();
        let limits = self.limits.load();
        let unit = limits.at(now);
        let (debt, cost) = seen.debt().charge(&limits, unit, cost);
        self.cell.store(seen, debt, true);
        let charge = self.charge_until(debt, unit, now, cost);
        self.let_go(&lines);
        charge
    }

    /// Owes this much, for as long as `quota` would take to pay it off, in addition.
    pub(in crate::rate) fn owe(&self, owed: u64, quota: Quota) {
        self.meet();
        let (lines, now) = self.lock_on_time();
        let seen = self.cell.hold();
        let (old, limits) = (Limits::new(quota), self.limits.load());
        let owed = Carry::Proportional.owed(
            owed,
            [old.tolerance, limits.tolerance],
            [old.interval, limits.interval],
        );
        let debt = seen.debt().owe(limits.at(now), owed);
        self.cell.store(seen, debt, true);
        self.let_go(&lines);
    }

    /// Changes the quota, and times the line anew.
    pub(in crate::rate) fn reconfigure(&self, quota: Quota, carry: Carry) {
        self.meet();
        let (mut lines, now) = self.lock_on_time();
        let seen = self.cell.hold();
        let (old, new) = (self.limits.load(), Limits::new(quota));
        let owed = carry.owed(
            seen.debt().at(old.at(now)),
            [old.tolerance, new.tolerance],
            [old.interval, new.interval],
        );
        lines.quota = Some(quota);
        lines.shrunk |= new.burst() < old.burst() && !lines.line.is_empty();
        lines.timed = now;
        self.limits.store(quota);
        self.begin_generation(&mut lines);
        let debt = Debt::until(new.at(now).saturating_add(owed));
        self.cell.begin_epoch(seen, debt);
        self.settle(lines);
    }

    /// Owes nothing any more.
    pub(in crate::rate) fn restart(&self) {
        let mut lines = self.lock();
        let seen = self.cell.hold();
        lines.timed = self.clock().now();
        self.begin_generation(&mut lines);
        self.cell.begin_epoch(seen, Debt::until(0));
        // It was set in another runtime.
        self.alarm().take_off();
        self.settle(lines);
    }

    pub(in crate::rate) fn close(&self) {
        let mut lines = self.lock();
        self.cell.hold();
        lines.closed = true;
        self.settle(lines);
    }
}
