//! [`Followed`]: what a limiter remembers of its charges until a server has answered them.
//!
//! Only an answer to a later charge than the last one is newer. So a record is kept until that or a later one
//! is answered, and at most [`KEPT`]: an answer to a charge without a record counts as if it had just been
//! made.

use std::collections::VecDeque;
use std::time::Duration;

use crate::algorithm::Receipt;
use crate::time::Tick;

/// What others have charged to a server, beside the charges of this limiter.
#[derive(Clone, Copy, Default)]
pub(super) struct OthersUse {
    /// How much that is now.
    pub(super) cost: u64,
    /// When it is over, or no longer known.
    pub(super) until: Tick,
    /// If it grows until it is over.
    pub(super) growth: Option<Growth>,
}

/// How much it was at a tick, when so much of the window had passed.
#[derive(Clone, Copy)]
pub(super) struct Growth {
    pub(super) told: u64,
    pub(super) at: Tick,
    pub(super) passed: Duration,
}

impl OthersUse {
    /// Brings it up to a tick. If it grows, it is at most twice what was told, because little is known of a
    /// window that has just begun.
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

/// How many charges are remembered that were not answered.
const KEPT: usize = 4096;

#[derive(Default)]
pub(super) struct Followed {
    /// The ticket of the newest charge that was answered.
    answered: u64,
    /// The cost of all calls.
    charged: u128,
    charges: VecDeque<Record>,
    /// If the rule counts by windows, it is until the present one ends, even if nothing is of others.
    pub(super) of_others: OthersUse,
}

/// The state just after a charge.
struct Record {
    ticket: u64,
    at: Tick,
    /// The cost of all calls until then.
    charged: u128,
    /// What counted of them then.
    counted: u64,
}

impl Followed {
    /// Forgets all charges, whose tickets are not used again.
    pub(super) fn forget_charges(&mut self) {
        *self = Self {
            of_others: self.of_others,
            ..Self::default()
        };
    }

    /// Remembers a charge, after which so much counted of all charges.
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

    /// Counts `cost` of a charge no longer, which the server has not counted either.
    pub(super) fn refund(&mut self, charge: &Receipt, cost: i128) {
        let first = self.charges.partition_point(|it| it.ticket < charge.ticket);
        for later in self.charges.range_mut(first..) {
            later.charged = later.charged.wrapping_sub(cost as u128);
            let counted = (i128::from(later.counted) - cost).max(0);
            later.counted = u64::try_from(counted).unwrap_or(u64::MAX);
        }
        self.charged = self.charged.wrapping_sub(cost as u128);
    }

    /// Forgets a charge that is answered, and all earlier ones. `None` if a later charge was answered before.
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

/// What is known of a charge that is answered; if there is no record of it, as if it had just been made.
pub(super) struct Answered {
    /// What counted just after it.
    pub(super) counted: u64,
    /// The same with those charges that may have come to the server before it.
    pub(super) until_soon: u64,
    /// What was charged since.
    pub(super) since: u64,
}
