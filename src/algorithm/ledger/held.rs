//! Costs that are held until their usage is known.
//!
//! In a window or a log, a charge counts from its tick until it is a period old, whatever happens.
//! So a hold there is the charge itself, and settling it corrects what still counts. In the other
//! rules time pays off a charge while its call runs, so:
//!
//! 1. The held cost is a number beside the rule. A call is admitted when its cost and the whole
//!    held cost fit together. Time pays off nothing of the held cost.
//! 2. When a hold is settled, the usage is charged as of its beginning, and is no longer held. So
//!    no call was admitted that the limiter would not have admitted after that charge.
//! 3. The backlog ends at `max(end + cost, ..)` after each charge: a later charge begins at its own
//!    tick if nothing is owed. So a charge as of an earlier moment delays the end by its cost, less
//!    the *idle* time since then, in which nothing was owed. It uses up the earliest idle time,
//!    because exactly that time would have paid it off.
//! 4. Idle time belongs to the hold that began last before it. So the idle time since a hold began
//!    is that of all holds from this one on, in whatever order they are settled. When a hold ends,
//!    the rest of its idle time belongs to the hold before it.
//! 5. A change of the quota forgets the idle time, which is in old units: the usage of the holds
//!    that are open then counts as of the change.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Ledger;
use crate::algorithm::Receipt;
use crate::time::Tick;

/// The open holds.
#[derive(Default)]
pub(super) struct Held {
    /// The total cost of the open holds.
    pub(super) cost: u128,
    /// The cost of each open hold and the tick at which it ends by itself, by its number.
    open: BTreeMap<u64, (u64, Tick)>,
    /// The idle units that belong to a hold, if there are any.
    idle: BTreeMap<u64, u64>,
    /// The number of the next hold.
    pub(super) next: u64,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens a hold, and returns its number.
    fn open(&mut self, cost: u64, end: Tick) -> u64 {
        let number = self.next;
        self.open.insert(number, (cost, end));
        self.cost += u128::from(cost);
        self.next += 1;
        number
    }

    /// Adds idle units, which belong to the last hold before the one with this number.
    pub(super) fn add_idle(&mut self, before: u64, units: u64) {
        let last = self.open.range(..before).next_back();
        if let Some((number, _)) = last.filter(|_| units > 0) {
            *self.idle.entry(*number).or_default() += units;
        }
    }

    /// Uses up to `units` of the idle time since a hold began, and returns how many.
    fn use_idle(&mut self, number: u64, units: u64) -> u64 {
        let mut rest = units;
        while let Some((&owner, idle)) = self.idle.range_mut(number..).next() {
            let used = rest.min(*idle);
            rest -= used;
            *idle -= used;
            if *idle > 0 {
                break;
            }
            self.idle.remove(&owner);
        }
        units - rest
    }

    /// Ends a hold, if it is still open.
    fn close(&mut self, number: u64) {
        if let Some((cost, _)) = self.open.remove(&number) {
            self.cost -= u128::from(cost);
            let idle = self.idle.remove(&number);
            self.add_idle(number, idle.unwrap_or(0));
        }
    }

    /// Forgets the idle time until now.
    pub(super) fn forget_idle(&mut self) {
        self.idle.clear();
    }
}

/// A hold of a ledger.
pub(crate) struct HeldCharge {
    /// The charge that it began with.
    charge: Receipt,
    pub(crate) cost: u64,
    /// Its number among the open holds, unless the charge itself counts.
    number: Option<u64>,
}

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
                charge,
                cost,
                number,
            };
        }
        self.return_to_rule(&charge, cost, now);
        // The idle time until now belongs to the hold before.
        self.charge_rule(|rule| {
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

    /// Returns the tick at which the oldest hold ends by itself.
    pub(crate) fn end_of_hold(&self) -> Option<Tick> {
        self.oldest_hold().map(|(_, _, end)| end)
    }

    /// Returns the number and the cost of the oldest hold, and the tick at which it ends by itself.
    fn oldest_hold(&self) -> Option<(u64, u64, Tick)> {
        let oldest = self.held.as_ref()?.open.first_key_value();
        oldest.map(|(number, (cost, end))| (*number, *cost, *end))
    }
}
