//! What is owed, charge by charge: a list of stretches of time, paid off in their order.

use num_bigint::BigInt;

use super::rule::Rule;

/// Beyond this, what is owed is not counted.
const MOST: u64 = (1 << 60) - 1;

/// A charge, as far as it was kept.
struct Kept {
    units: BigInt,
    at: u64,
    /// Nobody was asked whether it fits.
    forced: bool,
}

/// A stretch that a charge occupies.
struct Stretch {
    charge: usize,
    start: BigInt,
    end: BigInt,
}

/// All charges under one quota, and when each is paid off.
pub(crate) struct Schedule {
    pub(crate) rule: Rule,
    all: Vec<Kept>,
    owed: Vec<Stretch>,
}

impl Schedule {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            all: Vec::new(),
            owed: Vec::new(),
        }
    }

    /// The unit at which all is paid off; a past one if it is.
    pub(crate) fn end(&self) -> BigInt {
        self.owed
            .last()
            .map_or_else(BigInt::default, |last| last.end.clone())
    }

    /// Units owed at a tick.
    pub(crate) fn owed(&self, now: u64) -> BigInt {
        (self.end() - self.rule.units(now)).max(0.into())
    }

    /// Whole tokens that could be had at a tick.
    pub(crate) fn available(&self, now: u64) -> BigInt {
        (self.rule.tolerance() - self.owed(now)).max(0.into()) / self.rule.interval()
    }

    /// Charges; it begins when everything before it is paid off, or at `start`. Gives it a number.
    pub(crate) fn charge(&mut self, units: BigInt, start: BigInt, at: u64, forced: bool) -> usize {
        let charge = self.all.len();
        let start = start.max(self.end());
        let end = (&start + &units).min(MOST.into());
        self.all.push(Kept {
            units: &end - &start,
            at,
            forced,
        });
        self.owed.push(Stretch { charge, start, end });
        charge
    }

    /// Gives back up to so many units of a charge, as far as time has not paid them off; says how
    /// many.
    pub(crate) fn refund(&mut self, charge: usize, units: &BigInt, now: u64) -> BigInt {
        let now = self.rule.units(now);
        let found = self.owed.iter().position(|owed| owed.charge == charge);
        let index = found.expect("it was charged here");
        let stretch = &mut self.owed[index];
        let unpaid = &stretch.end - stretch.start.clone().max(now);
        let given = unpaid.max(0.into()).min(units.clone());
        stretch.end -= &given;
        for later in &mut self.owed[index + 1..] {
            if given > 0.into() {
                later.start -= &given;
                later.end -= &given;
            }
        }
        self.all[charge].units -= &given;
        given
    }

    /// The promise, over every pair of charges of which the later one was asked whether it fits, by
    /// what was kept of each.
    pub(crate) fn assert_promise(&self) {
        for first in 0..self.all.len() {
            let mut units = BigInt::default();
            let from = self.all[first].at;
            for last in &self.all[first..] {
                assert!(last.at >= from, "ticks go forward");
                units += &last.units;
                assert!(
                    last.forced || self.rule.allows(&units, from, last.at),
                    "too much was kept from tick {from} to tick {}: {units} units",
                    last.at
                );
            }
        }
    }

    /// What would be owed if only what was kept had ever been charged, each at its tick.
    pub(crate) fn owed_for_kept(&self, now: u64) -> BigInt {
        let end = self.all.iter().fold(BigInt::default(), |end, kept| {
            if kept.units == 0.into() {
                return end;
            }
            end.max(self.rule.units(kept.at)) + &kept.units
        });
        (end - self.rule.units(now)).max(0.into())
    }
}
