//! Giving a charge back. Only under the lock, and held.
//!
//! By a debt and by a log charges are paid off in the order in which they were made, which is what
//! [`Refunds`] is about: units of time of the one, places of the other. A window forgets in which
//! order they were made.

use super::Memory;
use super::log::Log;
use crate::rate::cell::Seen;
use crate::rate::charge::Charge;
use crate::rate::core::Core;
use crate::rate::refunds::Refunds;
use crate::sync::Ordering;

impl Core {
    /// Gives back up to `cost` of a charge, as far as it is not paid off at a unit. Says whether
    /// there was anything to give back.
    pub(in crate::rate) fn take_back(
        &self,
        refunds: &mut Refunds,
        seen: Seen,
        charge: &Charge,
        cost: u64,
        unit: u64,
    ) -> (Seen, bool) {
        let total = self.refunded.load(Ordering::Relaxed);
        let (seen, given) = match self.rule.as_deref() {
            None => {
                // No more than is owed: it may be of another limiter.
                let units = self.limits.load::<true>().of(cost);
                let units = units.min(seen.debt().at(unit));
                let given = refunds.give(charge.ticket, units, unit, total);
                (seen.with(seen.debt().give(given).end()), given)
            }
            Some(Memory::Window(memory)) => memory.take_back(seen, charge.at, cost, unit),
            Some(Memory::Log(log)) => self.take_places_back(log, refunds, seen, charge, cost, unit),
        };
        if given == 0 {
            return (seen, false);
        }
        self.refunded.store(total + given, Ordering::Relaxed);
        // A decision that has seen what was refunded before must not take place now, not even when
        // the value has become the same again.
        (seen.next_epoch(), true)
    }

    fn take_places_back(
        &self,
        log: &Log,
        refunds: &mut Refunds,
        seen: Seen,
        charge: &Charge,
        cost: u64,
        unit: u64,
    ) -> (Seen, u64) {
        let total = self.refunded.load(Ordering::Relaxed);
        let held = log.held(seen, self.clock());
        let charges = held.unpaid(unit);
        let unpaid = charges.count();
        let passed = log.passed(seen);
        if passed < total + unpaid {
            // Places have been counted to the end, and then from the beginning: charges cannot be
            // told from one another until they are told from later ones.
            self.refunded.store(u64::MAX, Ordering::Relaxed);
            return (seen, 0);
        }
        if charge.ticket > passed {
            // It is of another limiter.
            return (seen, 0);
        }
        let paid = passed - total - unpaid;
        let end = refunds.end(charge.ticket, total);
        let given = refunds.give(charge.ticket, cost.min(unpaid), paid, total);
        if given == 0 {
            return (seen, 0);
        }
        let to = end - paid;
        (held.replace(charges.without(to - given, to), unit), given)
    }
}
