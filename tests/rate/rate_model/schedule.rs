//! A quota in its obvious form, with integers of any size; and the debt under it, charge by charge: a list
//! of stretches of time, paid off in order.

use num_bigint::BigInt;
use tollgate::{Algorithm, Quota};

use super::steps::Scale;
use super::{LAST_TICK, LAST_UNIT};

/// A quota, and its derived values.
///
/// Time is counted in units. A token takes a whole number of them, [`interval`](Self::interval),
/// and `interval * count` of them pass in a period: evenly, or all at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    count: u64,
    period: u64,
    pub(crate) burst: u64,
    /// In batches, each period.
    batches: bool,
    /// The tick from which periods are counted, if it is in batches.
    start: u64,
}

impl Rule {
    pub(crate) fn by(algorithm: Algorithm, quota: Quota) -> Self {
        let count = quota.count();
        let even = Self {
            count,
            period: u64::try_from(quota.period().as_nanos()).expect("a quota's period fits"),
            burst: quota.max_burst(),
            batches: false,
            start: 0,
        };
        let batches = Self {
            burst: count,
            batches: true,
            ..even
        };
        match algorithm {
            Algorithm::Gcra => even,
            // Tokens that do not fit into the bucket are lost.
            Algorithm::TokenBucket if even.burst > 1 => Self {
                count: count.min(even.burst),
                burst: even.burst,
                ..batches
            },
            Algorithm::TokenBucket | Algorithm::FixedWindow => batches,
            Algorithm::SubInterval { parts } => {
                let parts = u64::from(parts);
                Self {
                    count: count / (parts + 1),
                    period: even.period.div_ceil(parts),
                    burst: count / (parts + 1),
                    ..batches
                }
            }
            other => panic!("there is no model of {other} here: add a row"),
        }
    }

    /// Returns whether time advances evenly.
    pub(crate) fn is_even(&self) -> bool {
        !self.batches
    }

    /// Returns the following rule: the current period continues, and is as long as those to come.
    pub(crate) fn then(&self, next: Self, now: u64) -> Self {
        let now = now.min(LAST_TICK);
        let begun = now.saturating_sub(self.start) / self.period * self.period;
        Self {
            start: self.start + begun,
            ..next
        }
    }

    /// Returns whether it is the same, perhaps in another notation.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let same_rate = u128::from(self.count) * u128::from(other.period)
            == u128::from(other.count) * u128::from(self.period);
        let same_batch = !self.batches || self.count == other.count;
        same_rate && same_batch && self.burst == other.burst
    }

    /// Returns whether every call is admitted at once.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.count == u64::MAX && self.period == 1
    }

    /// Returns the units of one token; none if there is no limit.
    pub(crate) fn interval(&self) -> BigInt {
        if self.is_unlimited() {
            0.into()
        } else if self.batches {
            1.into()
        } else {
            self.period.div_ceil(self.count).into()
        }
    }

    /// Returns the units of this many tokens.
    pub(crate) fn price(&self, cost: u64) -> BigInt {
        self.interval() * cost
    }

    /// Returns the units of the burst.
    pub(crate) fn tolerance(&self) -> BigInt {
        self.price(self.burst)
    }

    /// Returns the whole units that have passed at a tick.
    pub(crate) fn units(&self, tick: u64) -> BigInt {
        let tick = tick.min(LAST_TICK);
        if self.batches {
            BigInt::from(tick.saturating_sub(self.start) / self.period) * self.count
        } else {
            (self.interval() * self.count * tick / self.period).min(LAST_UNIT.into())
        }
    }

    /// Returns the same, including a last unit that has begun to pass.
    pub(crate) fn units_up(&self, tick: u64) -> BigInt {
        if self.batches {
            return self.units(tick);
        }
        let tick = tick.min(LAST_TICK);
        let units = (self.interval() * self.count * tick + (self.period - 1)) / self.period;
        units.min(LAST_UNIT.into())
    }

    /// Returns the first tick from `now` on at which this many units have passed; `None` means
    /// never.
    pub(crate) fn tick_of(&self, units: &BigInt, now: u64) -> Option<u64> {
        if self.units(now) >= *units {
            return Some(now);
        }
        if *units > LAST_UNIT.into() {
            return None;
        }
        let tick: BigInt = if self.batches {
            (units + self.count - 1) / self.count * self.period + self.start
        } else {
            let pace = self.interval() * self.count;
            (units * self.period + &pace - 1) / pace
        };
        u64::try_from(tick).ok().filter(|tick| *tick <= LAST_TICK)
    }

    /// Checks the promise: from tick `from` to tick `to` no more than the burst, plus the rate
    /// times the time and one nanosecond, or the batches of the periods that end in it. Both sides
    /// are multiplied by the period and counted in units, so that nothing is divided and a part of
    /// a token counts as a part.
    pub(crate) fn allows(&self, units: &BigInt, from: u64, to: u64) -> bool {
        if self.batches {
            return *units <= self.tolerance() + self.units(to) - self.units(from);
        }
        let time = BigInt::from(to) - from + 1;
        units * self.period <= self.tolerance() * self.period + self.interval() * self.count * time
    }

    /// Checks the promise over every pair of charges, with `more` tokens beyond the burst.
    pub(crate) fn assert_promise(&self, more: u64, charged: &[(u64, u64)]) {
        let more = self.price(more);
        for (first, (from, _)) in charged.iter().enumerate() {
            let mut units = -more.clone();
            for (to, cost) in &charged[first..] {
                units += self.price(*cost);
                assert!(
                    self.allows(&units, *from, *to),
                    "too much from tick {from} to tick {to}"
                );
            }
        }
    }

    pub(crate) fn scale(&self) -> Scale {
        Scale {
            most: self.burst,
            count: self.count,
            period: self.period,
        }
    }
}

/// A debt beyond this is not counted.
const MOST: u64 = (1 << 60) - 1;

/// The kept part of a charge.
struct Kept {
    units: BigInt,
    at: u64,
    /// The unit from which on it would have been paid off, had nothing been owed.
    from: BigInt,
    /// It did not ask whether it fits.
    forced: bool,
    /// The least debt since it was charged.
    least: BigInt,
}

/// A stretch of time that a charge occupies.
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
    /// Each asked at its tick whether it fits, and nothing was given back.
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

    /// Returns the unit at which all is paid off; a past one if it is.
    pub(crate) fn end(&self) -> BigInt {
        self.owed
            .last()
            .map_or_else(BigInt::default, |last| last.end.clone())
    }

    /// Returns the units owed at a tick.
    pub(crate) fn owed(&self, now: u64) -> BigInt {
        (self.end() - self.rule.units(now)).max(0.into())
    }

    /// Returns the whole tokens available at a tick.
    pub(crate) fn available(&self, now: u64) -> BigInt {
        (self.rule.tolerance() - self.owed(now)).max(0.into()) / self.rule.interval()
    }

    /// Makes a charge, with a number; it begins when everything before it is paid off, or at
    /// `start`.
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
            // Where a nanosecond has several units, one unit may be paid off in the nanosecond of
            // its charge.
            least: (&end - self.rule.units(at)).max(0.into()),
        });
        self.owed.push(Stretch { charge, start, end });
        charge
    }

    /// Notes the present debt for the earlier charges.
    fn note_owed(&mut self, now: u64) {
        let owed = self.owed(now);
        for kept in &mut self.all {
            if kept.least > owed {
                kept.least.clone_from(&owed);
            }
        }
    }

    /// Refunds up to this many units of a charge, as far as time has not paid them off: never more
    /// than the least debt since, so that the refunded units have admitted no call; and never so much
    /// that the debt falls below that of the kept charges alone.
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

    /// Returns, by the promise alone where that applies, the first tick from `now` on at which this
    /// many tokens fit, so that from each charge until then no more is charged than the burst and the
    /// refill since.
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

    /// Checks the promise, over every pair of charges whose later one asked whether it fits, with
    /// the kept part of each.
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

    /// Returns the debt that the kept charges alone would leave.
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
