//! Costs that are held until their usage is known.
//!
//! 1. The held cost is a number beside the rule. A call is admitted when its cost and the whole
//!    held cost fit together. Time pays off nothing of the held cost.
//! 2. When a hold is settled, the usage is charged as of its beginning, and is no longer held. So
//!    no call was admitted that the limiter would not have admitted after that charge.
//! 3. A change of the quota, or a pause, forgets the idle time since the beginning: the usage is
//!    then charged as of now.

use super::Ledger;
use crate::algorithm::Receipt;
use crate::time::Tick;

impl Ledger {
    /// Holds the cost of a charge from now on, in place of the charge.
    pub(crate) fn hold(&mut self, charge: &Receipt, now: Tick) -> Receipt {
        self.held += u128::from(charge.cost);
        self.return_to_rule(charge, charge.cost, now);
        Receipt {
            generation: self.generation,
            ..self.rule.hold(now, charge.cost)
        }
    }

    /// Charges the usage of a hold as of its beginning. `charge` is the one that it began with.
    pub(crate) fn settle(&mut self, charge: &Receipt, hold: &Receipt, used: u64, now: Tick) {
        self.forget_call(charge, i128::from(hold.cost) - i128::from(used));
        if hold.generation == self.generation {
            self.rule.charge_as_of(hold, used, now);
        } else {
            _ = self.rule.charge(now, used);
        }
        self.held -= u128::from(hold.cost);
    }
}
