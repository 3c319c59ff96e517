//! [`Gcra`]: the generic cell rate algorithm, in its virtual scheduling form: ITU-T recommendation
//! I.371, annex A; also known as a leaky bucket used as a meter.
//!
//! The whole state is one number, a [`Tat`]: the unit at which everything that was charged is paid
//! off, the *theoretical arrival time* of the recommendation, the end of the backlog. Time pays off
//! one unit at a time, and the backlog is at most the tolerance, which is the burst. A token bucket, a
//! fixed window and sub-intervals are the same value with other [parameters](Params): a clock that
//! advances in steps.
//!
//! 1. With an earlier `now` than one that was seen, it admits less, never more.
//! 2. Everything is counted in units, and rounded so that nothing is admitted early.
//! 3. A change of the quota rounds the backlog up, and starts it at the next whole unit. So it
//!    makes nothing available: neither the rest of a token nor the fraction of a unit that has
//!    passed.
//! 4. A waiter that is granted at its due tick is charged within the nanosecond that ends there, so
//!    fractions of a nanosecond do not add up over a queue.

use super::definition::{Definition, Promise};
use super::params::{InverseParams, MAX_TAT, Params};
use super::quota_change::QuotaChange;
use super::receipt::Receipt;
use super::refunds::Refunds;
use super::rule::Rule;
use super::tat::Tat;
use crate::quota::Quota;
use crate::time::Tick;

pub(super) const DEFINITION: Definition = Definition {
    name: "gcra",
    parts: None,
    keeps_a_word: true,
    on_change: QuotaChange::Proportional,
};

pub(super) const fn promise(quota: Quota) -> Result<Promise, &'static str> {
    Ok(Promise::even(quota))
}

/// The time that is made up for when a waiter is late, if no `max` was chosen.
const CATCH_UP: Tick = Tick::from_nanos(10_000_000);

/// The state of a rule that decides by its backlog.
pub(crate) struct Gcra {
    /// Whether steps begin at the multiples of their length, also after a change.
    aligned: bool,
    pub(crate) params: Params,
    pub(crate) inverse: InverseParams,
    pub(crate) tat: Tat,
    pub(crate) refunds: Refunds,
}

impl Gcra {
    pub(crate) fn new(promise: &Promise, aligned: bool) -> Self {
        let (params, inverse) = promise.params();
        Self {
            aligned,
            ..Self::of_word(params, inverse, Tat::from_units(0))
        }
    }

    /// Creates the rule of a key, whose whole state is a word.
    pub(crate) fn of_word(params: Params, inverse: InverseParams, tat: Tat) -> Self {
        Self {
            aligned: true,
            params,
            inverse,
            tat,
            refunds: Refunds::default(),
        }
    }

    /// Returns a rule that admits the same, without the refunds, by which only refunds are decided.
    pub(crate) fn without_refunds(&self) -> Self {
        let refunds = Refunds::default();
        Self { refunds, ..*self }
    }

    fn charge_from(&mut self, start: u64, at: Tick, cost: u64) -> Receipt {
        let (tat, fitted) = self.tat.charge(&self.params, start, cost);
        self.tat = tat;
        Receipt {
            ticket: tat.end() + self.refunds.total(),
            generation: 0,
            cost: fitted,
            at,
            owed: tat.backlog_at(self.params.units_at(at)),
        }
    }
}

impl Rule for Gcra {
    fn capacity(&self) -> u64 {
        self.params.burst()
    }

    fn due(&self, behind: u128, cost: u64) -> Tick {
        let behind = behind.saturating_mul(u128::from(self.params.emission_interval));
        let behind = u64::try_from(behind).unwrap_or(u64::MAX);
        let start = self.tat.end().saturating_add(behind);
        let price = self.params.units_of(cost);
        // A cost above the burst waits until the backlog is empty.
        let room = self.params.burst_tolerance.saturating_sub(price);
        self.inverse.tick_at(start.saturating_sub(room))
    }

    fn charge(&mut self, at: Tick, cost: u64) -> Receipt {
        self.charge_from(self.params.units_at(at), at, cost)
    }

    fn grant(&mut self, at: Tick, cost: u64) -> Receipt {
        let passed = self.params.units_at(at);
        let before = Tick::from_nanos(at.as_nanos().saturating_sub(1));
        let within = self.params.units_at(before)..passed;
        let start = match !self.params.is_stepped() && within.contains(&self.tat.end()) {
            true => self.tat.end(),
            false => passed,
        };
        self.charge_from(start, at, cost)
    }

    /// To the unit, where charges of whole tokens would leave a fraction available.
    fn spend_burst(&mut self, at: Tick) {
        let params = &self.params;
        // Without a limit there is no burst to spend.
        if !params.is_unlimited() {
            let spent = params.units_at(at) + params.burst_tolerance - params.emission_interval;
            self.tat = Tat::from_units(self.tat.end().max(spent));
        }
    }

    fn give_back(&mut self, receipt: &Receipt, cost: u64, now: Tick) -> u64 {
        let passed = self.params.units_at(now);
        // At most the backlog: it may be a charge of another key.
        let units = self.params.units_of(cost).min(self.tat.backlog_at(passed));
        let given = self.refunds.give(receipt.ticket, units, passed);
        self.tat = self.tat.give(given);
        given
    }

    fn backlog(&mut self, now: Tick) -> u64 {
        let units = self.tat.backlog_at(self.params.units_at(now));
        self.params.backlog(units)
    }

    fn reset(&self) -> Tick {
        self.inverse.tick_at(self.tat.end())
    }

    fn after(&mut self, receipt: &Receipt) -> (u64, Tick) {
        let end = self.params.units_at(receipt.at) + receipt.owed;
        (
            self.params.backlog(receipt.owed),
            self.inverse.tick_at(end.min(MAX_TAT)),
        )
    }

    fn earliest(&self, now: Tick, most: Option<u64>) -> Tick {
        let params = &self.params;
        let in_time = || params.tokens(params.starting(0).units_at(CATCH_UP)).max(1);
        let units = params.units_of(most.unwrap_or_else(in_time));
        let earliest = params.units_at(now).saturating_sub(units);
        // Not between two steps, where a part of a batch would be there already.
        self.inverse.tick_at(params.reached(earliest))
    }

    fn is_ahead_of(&self, now: Tick) -> bool {
        self.tat.backlog_at(self.params.units_at(now)) > self.params.burst_tolerance
    }

    fn change(&mut self, promise: &Promise, how: QuotaChange, now: Tick) -> bool {
        let (params, inverse) = promise.params();
        let old = self.params;
        // A step that has begun continues: the backlog that is carried over counts for all of it.
        // The time between the beginnings of two steps is never less than a step before or after
        // the change.
        let begun = match old.is_stepped() {
            _ if self.aligned => Tick::default(),
            false => now,
            true => self.inverse.tick_at(old.units_at(now)),
        };
        let new = params.starting(begun.as_nanos());
        let same = params.starting(old.start);
        if same == old && inverse.matching(&same) == self.inverse {
            return false;
        }
        self.tat = how.tat(self.tat, &old, &new, now);
        (self.params, self.inverse) = (new, inverse.matching(&new));
        true
    }

    fn clear(&mut self) {
        self.params = self.params.starting(0);
        self.inverse = self.inverse.matching(&self.params);
        self.tat = Tat::from_units(0);
    }

    fn forget_receipts(&mut self) {
        self.refunds.clear();
    }
}
