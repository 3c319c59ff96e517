//! [`Gcra`]: the rule whose whole state is a theoretical arrival time.
//!
//! Three algorithms are the same value with other [parameters](Params): a token bucket, a fixed
//! window and sub-intervals have a clock that advances in steps.
//!
//! 1. Everything is counted in units, rounded so that nothing is admitted early.
//! 2. A change of the quota rounds the backlog up, and begins it at the next whole unit, so it makes
//!    nothing available: neither what is left of a token nor the fraction of a unit that has passed.
//! 3. A waiter that is granted at its due tick is charged within the nanosecond that ends there, so
//!    fractions of a nanosecond do not add up over a queue.

use super::params::{InverseParams, Params};
use super::refunds::Refunds;
use super::rule::{Receipt, Rule};
use super::tat::{MAX_TAT, Tat};
use super::{Algorithm, QuotaChange};
use crate::quota::Quota;
use crate::time::Tick;

/// What a late waiter is made up for, if nothing was chosen.
const CATCH_UP: Tick = Tick::from_nanos(10_000_000);

/// The state of a rule that goes by what is owed.
#[derive(Clone)]
pub(crate) struct Gcra {
    algorithm: Algorithm,
    /// Steps begin at the multiples of their length, also after a change.
    aligned: bool,
    pub(crate) params: Params,
    pub(crate) inverse: InverseParams,
    pub(crate) tat: Tat,
    pub(crate) refunds: Refunds,
}

impl Gcra {
    pub(crate) fn new(algorithm: Algorithm, quota: Quota, aligned: bool) -> Self {
        let (params, inverse) = algorithm.params(quota);
        Self {
            algorithm,
            aligned,
            params,
            inverse,
            tat: Tat::from_units(0),
            refunds: Refunds::default(),
        }
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
        // A cost above the burst waits until nothing is owed.
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
        let start = match self.params.step == 0 && within.contains(&self.tat.end()) {
            true => self.tat.end(),
            false => passed,
        };
        self.charge_from(start, at, cost)
    }

    fn give_back(&mut self, receipt: &Receipt, cost: u64, now: Tick) -> u64 {
        let passed = self.params.units_at(now);
        // No more than is owed: it may be a charge of another limiter.
        let units = self.params.units_of(cost).min(self.tat.backlog_at(passed));
        let given = self.refunds.give(receipt.ticket, units, passed);
        self.tat = self.tat.give(given);
        given
    }

    fn backlog(&mut self, now: Tick) -> u64 {
        let units = self.tat.backlog_at(self.params.units_at(now));
        units.div_ceil(self.params.emission_interval)
    }

    fn reset(&self) -> Tick {
        self.inverse.tick_at(self.tat.end())
    }

    fn after(&mut self, receipt: &Receipt) -> (u64, Tick) {
        let end = self.params.units_at(receipt.at) + receipt.owed;
        (
            receipt.owed.div_ceil(self.params.emission_interval),
            self.inverse.tick_at(end.min(MAX_TAT)),
        )
    }

    fn earliest(&self, now: Tick, most: Option<u64>) -> Tick {
        let params = &self.params;
        let in_time = || params.tokens(params.starting(0).units_at(CATCH_UP)).max(1);
        let units = params.units_of(most.unwrap_or_else(in_time));
        let earliest = params.units_at(now).saturating_sub(units);
        // Not between two steps, where a part of what comes at once would be there already.
        self.inverse.tick_at(params.reached(earliest))
    }

    fn is_ahead_of(&self, now: Tick) -> bool {
        self.tat.backlog_at(self.params.units_at(now)) > self.params.burst_tolerance
    }

    fn change(&mut self, quota: Quota, how: QuotaChange, now: Tick) -> bool {
        let (params, inverse) = self.algorithm.params(quota);
        let old = self.params;
        // A step that has begun goes on: what is carried over counts for all of it, and between two
        // that begin there is never less time than a step takes before or after the change.
        let begun = match old.step {
            _ if self.aligned => Tick::default(),
            0 => now,
            _ => self.inverse.tick_at(old.units_at(now)),
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
