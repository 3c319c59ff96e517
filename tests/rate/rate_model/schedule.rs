//! What is owed, charge by charge: a list of stretches of time, paid off in their order.

use num_bigint::BigInt;

use super::rule::Rule;

/// Beyond this, what is owed is not counted.
const MOST: u64 = (1 << 60) - 1;

/// A charge, as far as it was kept.
struct Kept {
    units: BigInt,
    at: u64,
    /// From when on it would have been paid off, had nothing been owed.
    from: BigInt,
    /// It was not asked whether it fits.
    forced: bool,
    /// The least that was owed since it was charged.
    least: BigInt,
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
    /// Each was asked whether it fits at its tick, and nothing was given back.
    is_plain: bool,
}

impl Schedule {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            all: Vec::new(),
            owed: Vec::new(),
            is_plain: true,
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
        self.note_owed(at);
        self.is_plain &= !forced && start == self.rule.units(at);
        let from = start.clone();
        let start = start.max(self.end());
        let end = (&start + &units).min(MOST.into());
        self.all.push(Kept {
            units: &end - &start,
            at,
            from,
            forced,
            // Where a nanosecond has several units, one may be paid off in which it was charged.
            least: (&end - self.rule.units(at)).max(0.into()),
        });
        self.owed.push(Stretch { charge, start, end });
        charge
    }

    /// Notes how much is owed now, for the charges that were made before.
    fn note_owed(&mut self, now: u64) {
        let owed = self.owed(now);
        for kept in &mut self.all {
            if kept.least > owed {
                kept.least.clone_from(&owed);
            }
        }
    }

    /// Gives back up to so many units of a charge, as far as time has not paid them off: never more
    /// than was owed all the time since, so that no call was admitted on the strength of it; and never
    /// so much that less is owed than if only what was kept had ever been charged.
    pub(crate) fn refund(&mut self, charge: usize, units: &BigInt, tick: u64) {
        self.is_plain = false;
        self.note_owed(tick);
        let now = self.rule.units(tick);
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
        assert!(given <= self.all[charge].least, "given back twice");
        self.all[charge].units -= &given;
        assert!(
            self.owed(tick) >= self.owed_for_kept(tick),
            "a refund minted"
        );
    }

    /// By the promise alone, where that says it: the first tick from `now` on at which so many tokens
    /// fit, so that from each charge until then no more is charged than the burst and what time has
    /// given since.
    pub(crate) fn earliest(&self, now: u64, cost: u64) -> Option<Option<u64>> {
        if !self.is_plain || cost > self.rule.burst {
            return None;
        }
        let mut since = self.rule.price(cost);
        let mut needed = BigInt::default();
        for kept in self.all.iter().rev() {
            since += &kept.units;
            needed = needed.max(self.rule.units(kept.at) + &since - self.rule.tolerance());
        }
        Some(self.rule.tick_of(&needed, now))
    }

    /// The promise, over every pair of charges whose later one was asked whether it fits, by what
    /// was kept of each.
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
                let is_burst = !self.is_plain || last.at > from || units <= self.rule.tolerance();
                assert!(is_burst, "more than the burst at tick {from}");
            }
        }
    }

    /// What would be owed if only what was kept had ever been charged.
    fn owed_for_kept(&self, now: u64) -> BigInt {
        let end = self.all.iter().fold(BigInt::default(), |end, kept| {
            if kept.units == 0.into() {
                return end;
            }
            end.max(kept.from.clone()) + &kept.units
        });
        (end - self.rule.units(now)).max(0.into())
    }
}
