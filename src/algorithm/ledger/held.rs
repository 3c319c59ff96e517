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

use crate::algorithm::Receipt;
use crate::time::Tick;

/// The open holds.
#[derive(Clone, Default)]
pub(super) struct Held {
    /// The total cost of the open holds.
    pub(super) cost: u128,
    /// The cost of each open hold and the tick at which it ends by itself, by its number.
    pub(super) open: BTreeMap<u64, (u64, Tick)>,
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
    pub(super) fn open(&mut self, cost: u64, end: Tick) -> u64 {
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
    pub(super) fn use_idle(&mut self, number: u64, units: u64) -> u64 {
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
    pub(super) fn close(&mut self, number: u64) {
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
    pub(super) charge: Receipt,
    pub(crate) cost: u64,
    /// Its number among the open holds, unless the charge itself counts.
    pub(super) number: Option<u64>,
}
