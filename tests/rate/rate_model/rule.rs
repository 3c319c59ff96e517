//! A quota as one would write it down: integers of any size, nothing clever.

use num_bigint::BigInt;
use tollgate::{Algorithm, Quota};

use super::amounts::Scale;
use super::{LAST_TICK, LAST_UNIT};

/// A quota, and what follows from it.
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
            // What finds no room in the bucket is lost.
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

    /// Whether time goes on evenly.
    pub(crate) fn is_even(&self) -> bool {
        !self.batches
    }

    /// The one that comes after it: a period that has begun goes on, and is as long as those to come.
    pub(crate) fn then(&self, next: Self, now: u64) -> Self {
        let now = now.min(LAST_TICK);
        let begun = now.saturating_sub(self.start) / self.period * self.period;
        Self {
            start: self.start + begun,
            ..next
        }
    }

    /// Whether it says the same, perhaps in other words.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let same_rate = u128::from(self.count) * u128::from(other.period)
            == u128::from(other.count) * u128::from(self.period);
        let same_batch = !self.batches || self.count == other.count;
        same_rate && same_batch && self.burst == other.burst
    }

    /// Whether everything goes at once.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.count == u64::MAX && self.period == 1
    }

    /// Units of one token; none if there is no limit.
    pub(crate) fn interval(&self) -> BigInt {
        if self.is_unlimited() {
            0.into()
        } else if self.batches {
            1.into()
        } else {
            self.period.div_ceil(self.count).into()
        }
    }

    /// Units of so many tokens.
    pub(crate) fn price(&self, cost: u64) -> BigInt {
        self.interval() * cost
    }

    /// Units of the burst.
    pub(crate) fn tolerance(&self) -> BigInt {
        self.price(self.burst)
    }

    /// Whole units that have passed at a tick.
    pub(crate) fn units(&self, tick: u64) -> BigInt {
        let tick = tick.min(LAST_TICK);
        if self.batches {
            BigInt::from(tick.saturating_sub(self.start) / self.period) * self.count
        } else {
            (self.interval() * self.count * tick / self.period).min(LAST_UNIT.into())
        }
    }

    /// The same, and the last one may have begun to pass.
    pub(crate) fn units_up(&self, tick: u64) -> BigInt {
        if self.batches {
            return self.units(tick);
        }
        let tick = tick.min(LAST_TICK);
        let units = (self.interval() * self.count * tick + (self.period - 1)) / self.period;
        units.min(LAST_UNIT.into())
    }

    /// The first tick from `now` on at which so many units have passed; `None` for never.
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

    /// The promise: from tick `from` to tick `to` no more than the burst, and the rate times the
    /// time and one nanosecond, or the batches of the periods that end in it. Both sides are
    /// multiplied by the period and counted in units, so that nothing is divided and a part of a
    /// token counts as a part.
    pub(crate) fn allows(&self, units: &BigInt, from: u64, to: u64) -> bool {
        if self.batches {
            return *units <= self.tolerance() + self.units(to) - self.units(from);
        }
        let time = BigInt::from(to) - from + 1;
        units * self.period <= self.tolerance() * self.period + self.interval() * self.count * time
    }

    /// The promise over every pair of charges, with `more` tokens beyond the burst.
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
