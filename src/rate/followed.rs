//! [`Followed`]: what a limiter remembers of its charges until a server has answered them.
//!
//! Only an answer to a later charge than the last one is newer. So a record is kept until that or a later one
//! is answered, and at most [`KEPT`]: an answer to a charge without a record counts as if it had just been
//! made.

use std::collections::VecDeque;

/// How many charges are remembered that were not answered.
const KEPT: usize = 4096;

#[derive(Default)]
pub(super) struct Followed {
    /// The ticket of the newest charge that was answered.
    answered: u64,
    /// The cost of all calls.
    charged: u128,
    charges: VecDeque<Record>,
}

/// The state just after a charge.
struct Record {
    ticket: u64,
    /// The cost of all calls until then.
    charged: u128,
    /// What counted of them then.
    counted: u64,
}

impl Followed {
    /// Remembers a charge, after which so much counted of all charges.
    pub(super) fn remember(&mut self, ticket: u64, cost: u64, counted: u64) {
        self.charged += u128::from(cost);
        if self.charges.len() == KEPT {
            self.charges.pop_front();
        }
        self.charges.push_back(Record {
            ticket,
            charged: self.charged,
            counted,
        });
    }

    /// Forgets a charge that is answered, and all earlier ones. Returns what counted just after it, or `now`
    /// if that is not known, and what was charged since; `None` if a later charge was answered before.
    pub(super) fn answer(&mut self, ticket: u64, now: u64) -> Option<(u64, u64)> {
        if ticket <= self.answered {
            return None;
        }
        self.answered = ticket;
        let answered = self.charges.partition_point(|it| it.ticket <= ticket);
        let newest = self.charges.drain(..answered).next_back();
        let record = newest.filter(|it| it.ticket == ticket);
        let (counted, charged) = record.map_or((now, self.charged), |it| (it.counted, it.charged));
        let since = u64::try_from(self.charged - charged).unwrap_or(u64::MAX);
        Some((counted, since))
    }
}
