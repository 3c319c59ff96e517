//! Beginning and ending [holds](super::held).

use std::time::Duration;

use super::Ledger;
use super::held::HeldCharge;
use crate::algorithm::Receipt;
use crate::time::Tick;

impl Ledger {
    /// Holds the cost of a charge from now on, for `longest` at most.
    pub(crate) fn hold(&mut self, charge: Receipt, now: Tick, longest: Duration) -> HeldCharge {
        let cost = charge.cost;
        if !self.algorithm.keeps_a_word() {
            let is_own = charge.generation == self.generation;
            let charge = if is_own {
                charge
            } else {
                self.charge(now, cost)
            };
            let number = None;
            return HeldCharge {
                // There may have been room for a part of it only.
                cost: charge.cost,
                charge,
                number,
            };
        }
        self.return_to_rule(&charge, cost, now);
        // The idle time until now belongs to the hold before.
        self.charge_rule(0, |rule| {
            rule.raise(now);
            Receipt::default()
        });
        let number = Some(
            self.held
                .get_or_insert_default()
                .open(cost, now.saturating_add(longest)),
        );
        HeldCharge {
            charge,
            cost,
            number,
        }
    }

    /// Ends a hold whose call has used this much.
    pub(crate) fn settle(&mut self, hold: &HeldCharge, used: u64, now: Tick) {
        let charge = &hold.charge;
        let open = hold.number.filter(|number| self.is_open(*number));
        match open {
            Some(number) => {
                self.forget_call(charge, i128::from(hold.cost) - i128::from(used));
                self.charge_as_of(number, used, now);
            }
            None if used > hold.cost => _ = self.charge(now, used - hold.cost),
            // It has ended, for its whole cost.
            None if hold.number.is_some() => {}
            None => self.give_back(charge, hold.cost - used, now),
        }
    }

    fn is_open(&self, number: u64) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| held.open.contains_key(&number))
    }

    /// Charges `used` as of the beginning of an open hold, and ends the hold.
    fn charge_as_of(&mut self, number: u64, used: u64, now: Tick) {
        let Some(held) = &mut self.held else {
            return;
        };
        let units = self.rule.params().units_of(used);
        let delay = units - held.use_idle(number, units);
        held.close(number);
        match &mut self.pause {
            Some(pause) if pause.first_hold <= number => {
                pause.forced = pause.forced.saturating_add(delay);
                self.rule.delay(delay);
            }
            _ => self.before_pause(now, |rule| rule.delay(delay)),
        }
    }

    /// Ends the holds that are older than the longest hold, for their whole cost. Returns when the
    /// last of these had to end.
    pub(super) fn end_old_holds(&mut self, now: Tick) -> Option<Tick> {
        let mut last = None;
        while let Some((number, cost, end)) = self.oldest_hold() {
            if end > now || end.is_never() {
                break;
            }
            self.charge_as_of(number, cost, now);
            last = Some(end);
        }
        last
    }

    /// Ends all holds, for their whole cost.
    pub(super) fn end_holds(&mut self, now: Tick) {
        while let Some((number, cost, _)) = self.oldest_hold() {
            self.charge_as_of(number, cost, now);
        }
    }

    /// Returns the tick at which the oldest hold ends by itself.
    pub(crate) fn end_of_hold(&self) -> Option<Tick> {
        self.oldest_hold().map(|(_, _, end)| end)
    }

    /// Returns the tick at which to check a call that is due at this tick: the end of a hold may make it due before.
    pub(crate) fn not_after_hold(&self, due: Tick) -> Tick {
        self.end_of_hold().map_or(due, |end| due.min(end))
    }

    /// Returns the number and the cost of the oldest hold, and the tick at which it ends by itself.
    fn oldest_hold(&self) -> Option<(u64, u64, Tick)> {
        let oldest = self.held.as_ref()?.open.first_key_value();
        oldest.map(|(number, (cost, end))| (*number, *cost, *end))
    }
}
