//! [`Others`]: the use of a server by others, as its responses tell it.
//!
//! A response is old when it is read: the server has counted the call of a charge, and reports the
//! remaining capacity of that moment. The used part of the limit at that moment, minus the use by
//! this limiter, is the use by others.
//!
//! 1. The use by others counts beside the charges of this limiter, so following only ever makes a
//!    limiter admit less, except that a window may end earlier.
//! 2. Others are assumed to continue in the same way. In a log, their use stays the same. In a
//!    fixed window, it grows evenly until the end. In a bucket, nobody knows who takes the refill,
//!    so none of it is counted in advance: the count of the server and the charges since then
//!    count, and the difference is charged.

use std::collections::VecDeque;
use std::time::Duration;

use crate::algorithm::Receipt;
use crate::time::Tick;

/// The charges of others to a server, beside the charges of this limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::algorithm) struct OthersUse {
    /// Their cost at present.
    pub(in crate::algorithm) cost: u64,
    /// The tick at which the cost ends, or is no longer known.
    pub(in crate::algorithm) until: Tick,
    /// The growth of the cost until then, if it grows.
    pub(in crate::algorithm) growth: Option<Growth>,
}

/// The cost that an answer told, the tick of its charge, and the time that had passed in the window
/// at that tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::algorithm) struct Growth {
    pub(in crate::algorithm) told: u64,
    pub(in crate::algorithm) at: Tick,
    pub(in crate::algorithm) passed: Duration,
}

impl OthersUse {
    /// Moves it along the time by this number of nanoseconds.
    pub(super) fn shift(&mut self, by: i64, until: Tick) {
        self.until = until;
        if let Some(growth) = &mut self.growth {
            let at = growth.at.as_nanos() as i64 + by;
            // There are no ticks before the epoch.
            growth.passed += Duration::from_nanos(at.min(0).unsigned_abs());
            growth.at = Tick::from_nanos(at.max(0) as u64);
        }
    }

    /// Brings the cost to a tick. If the cost grows, it is at most twice the told cost, because
    /// little is known about a window that has just begun.
    pub(super) fn advance(&mut self, now: Tick) {
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

/// The maximum number of remembered charges without an answer.
const KEPT: usize = 4096;

/// The charges that a limiter remembers until a server has answered them.
///
/// An answer is newer than the last one only if its charge is later. So a record is kept until its
/// charge or a later one is answered, and at most [`KEPT`] records are kept: an answer to a charge
/// without a record counts as if the charge had just been made.
#[derive(Default)]
pub(super) struct Others {
    /// The ticket of the newest charge that was answered.
    answered: u64,
    /// The cost of all calls.
    charged: u128,
    charges: VecDeque<Record>,
    /// The use by others. If the rule counts by windows, it lasts until the present window ends,
    /// even if its cost is 0.
    pub(super) used: OthersUse,
}

/// The state just after a charge.
struct Record {
    ticket: u64,
    at: Tick,
    /// The cost of all calls up to this one.
    charged: u128,
    /// The part of it that counted at that time.
    counted: u64,
}

impl Others {
    /// Creates the state of a limiter whose charges are answered elsewhere.
    pub(super) fn of_use(used: OthersUse) -> Self {
        Self {
            used,
            ..Self::default()
        }
    }

    /// Brings the use by others to a tick.
    pub(super) fn advance(&mut self, now: Tick) {
        self.used.advance(now);
    }

    /// Forgets the use by others.
    pub(super) fn forget_use(&mut self) {
        self.used = OthersUse::default();
    }

    /// Forgets all charges. Their tickets are not used again.
    pub(super) fn forget_charges(&mut self) {
        *self = Self {
            used: self.used,
            ..Self::default()
        };
    }

    /// Remembers a charge, with the counted cost of all charges just after it.
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

    /// Removes `cost` of a charge from the counts. The server has not counted it either.
    pub(super) fn refund(&mut self, charge: &Receipt, cost: i128) {
        let first = self.charges.partition_point(|it| it.ticket < charge.ticket);
        for later in self.charges.range_mut(first..) {
            later.charged = later.charged.wrapping_sub(cost as u128);
            let counted = (i128::from(later.counted) - cost).max(0);
            later.counted = u64::try_from(counted).unwrap_or(u64::MAX);
        }
        self.charged = self.charged.wrapping_sub(cost as u128);
    }

    /// Forgets an answered charge, and all earlier ones. Returns `None` if a later charge was
    /// answered before.
    pub(super) fn answer(&mut self, charge: &Receipt, soon: Tick, now: u64) -> Option<Answered> {
        if charge.ticket <= self.answered {
            return None;
        }
        self.answered = charge.ticket;
        let charges = &mut self.charges;
        let with_it = charges.partition_point(|it| it.at <= soon);
        let until_soon = charges.range(..with_it).next_back();
        let until_soon = until_soon.map_or(now, |it| it.counted);
        let answered = charges.partition_point(|it| it.ticket <= charge.ticket);
        let newest = charges.drain(..answered).next_back();
        let record = newest.filter(|it| it.ticket == charge.ticket);
        let before = record.as_ref().map_or(self.charged, |it| it.charged);
        let since = self.charged.wrapping_sub(before);
        Some(Answered {
            counted: record.map_or(now, |it| it.counted),
            until_soon,
            since: u64::try_from(since).unwrap_or(u64::MAX),
        })
    }
}

/// The known costs at an answered charge. Without a record of it, they are those of a charge just
/// made.
pub(super) struct Answered {
    /// The counted cost just after it.
    pub(super) counted: u64,
    /// The same, including charges that may have reached the server before it.
    pub(super) until_soon: u64,
    /// The cost charged since.
    pub(super) since: u64,
}
