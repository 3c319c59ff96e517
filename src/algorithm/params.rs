//! A quota in units, so that nothing has to be rounded or divided.
//!
//! A token takes `period / count` nanoseconds, seldom a whole number. If that is rounded up,
//! 700,000,000 a second become 500,000,000. If it is rounded down, the third call of 3 a second
//! with a burst of 3 comes too early. So time is counted in units. A token takes a whole number of
//! them, `K = ⌈period / count⌉`, and a nanosecond has `K * count / period` units, at least 1 and
//! below 2. For a quota of more than one token per nanosecond, `K` is 1. If it has two or more, the
//! whole units are counted separately from the fraction ([`DENSE`]), and a limiter takes the lock
//! for that.
//!
//! 1. [`units_at`](Params::units_at) is the exact `⌊tick * K * count / period⌋`. The fraction is
//!    kept with 128 bits, rounded up, so it is off by less than a 2^128th. Times a tick, the error
//!    is less than a 2^64th. The exact product is a multiple of a `period`th, which is more. So
//!    rounding cannot reach the next whole number.
//! 2. [`tick_at`](Params::tick_at) is the exact inverse, the first tick at which this number of
//!    units has passed: `⌈units / ratio⌉`, computed as `units - ⌊units * (1 - 1 / ratio)⌋`, where
//!    the ratio is that of units to nanoseconds. The same holds for its fraction, because the exact
//!    product is a multiple of one part in `K * count`.
//! 3. Division happens only when parameters are computed, and when tokens are counted for people to
//!    read.
//!
//! A rule that refills whole batches has a clock that advances in [steps](Params::stepped): a token
//! is one unit, and `count` units pass at once, at every multiple of the period since the tick at
//! which the steps start. So the units at a tick after that are `⌊tick / period⌋ * count`, and the
//! first tick of some units is `⌈units / count⌉ * period`. The quotients are those of 1 and 2, with
//! `1 / period` and `1 / count` as the fractions.
//!
//! Without a limit, a token takes no units: so no charge moves the end of the backlog, and every
//! charge fits.
//!
//! Most quotas need none of this: if the period is a whole number of nanoseconds for each token, a
//! unit is a nanosecond, and both conversions are the identity ([`is_even`](Params::is_even)).

use crate::quota::{LARGEST_BURST, Quota};
use crate::time::Tick;

/// The last tick that differs from later ones: nine years after the epoch of the clock. Time does
/// not advance for limiters after it.
pub(crate) const LAST_TICK: u64 = (1 << 58) - 1;

/// The largest end of a backlog: units that do not fit in the 60 bits of a state are not added.
pub(crate) const MAX_TAT: u64 = (1 << 60) - 1;

/// Marks the `step` of parameters that have this number of whole units in a nanosecond, beside the
/// fraction. Steps are shorter.
const DENSE: u64 = 1 << 63;

/// The fraction of a dense quota that has none. It is not zero, because that means one unit per
/// nanosecond. It is smaller than every real fraction: it never adds up to a unit.
const NONE: [u64; 2] = [1, 0];

/// The last unit. Together with a burst, it fits in the 60 bits of a state. Only a dense quota
/// reaches it before the [last tick](LAST_TICK): one of 16 per nanosecond reaches it after two
/// years.
pub(crate) const LAST_UNIT: u64 = MAX_TAT - LARGEST_BURST;

/// The earliest tick from which steps are counted, so that no time since then overflows.
const EARLIEST_START: i64 = -0x4000_0000_0000_0000;

/// A quota in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Params {
    /// Units of one token; 0 if there is no limit.
    pub(crate) emission_interval: u64,
    /// Units of the whole burst.
    pub(crate) burst_tolerance: u64,
    /// The units that a nanosecond has beyond one; in steps, the steps that it has. A fraction of
    /// 2^128, in two halves.
    pub(crate) surplus: [u64; 2],
    /// Units of a step; 0 if time does not advance in steps. Or, with [`DENSE`], the whole units of a
    /// nanosecond.
    pub(crate) step: u64,
    /// The tick from which steps are counted, perhaps before the epoch. No unit has passed before it.
    pub(crate) start: i64,
    /// For the conversion from units back to ticks: the difference between a nanosecond and a unit;
    /// in steps, between a step and a unit. It is a fraction of 2^128, in two halves.
    pub(crate) lack: [u64; 2],
    /// For the conversion back: the nanoseconds of a step; 1 if time does not advance in steps.
    pub(crate) stride: u64,
}

impl Params {
    /// A unit is a nanosecond. The tolerance covers threads whose clocks differ, for years.
    const UNLIMITED: Self = Self {
        emission_interval: 0,
        burst_tolerance: 1 << 58,
        surplus: [0, 0],
        step: 0,
        start: 0,
        lack: [0, 0],
        stride: 1,
    };

    /// Returns whether there is no limit.
    pub(crate) const fn is_unlimited(&self) -> bool {
        self.emission_interval == 0
    }

    pub(crate) const fn new(quota: Quota) -> Self {
        if quota.is_unlimited() {
            return Self::UNLIMITED;
        }
        let (count, period) = (quota.count() as u128, quota.period_nanos() as u128);
        let interval = period.div_ceil(count);
        let units = interval * count;
        let (surplus, step) = if units < 2 * period {
            (fraction(units - period, period), 0)
        } else {
            let surplus = match count % period {
                0 => NONE,
                rest => fraction(rest, period),
            };
            (surplus, DENSE | (count / period) as u64)
        };
        Self {
            emission_interval: interval as u64,
            // A burst is at most 2^58 nanoseconds, and a nanosecond has fewer than 2 units: fewer than
            // 2^59. If it has more, the burst is at most 2^56 units.
            burst_tolerance: interval as u64 * quota.max_burst(),
            surplus,
            step,
            lack: fraction(units - period, units),
            ..Self::UNLIMITED
        }
    }

    /// Returns whether there are at least two units in a nanosecond.
    pub(crate) const fn is_dense(&self) -> bool {
        self.step >= DENSE
    }

    /// Returns whether time advances in steps.
    pub(crate) const fn is_stepped(&self) -> bool {
        self.step != 0 && !self.is_dense()
    }

    /// Creates parameters for `count` units at every multiple of `period` nanoseconds, and at most
    /// `capacity` at once. The period has at least `count` nanoseconds.
    pub(crate) const fn stepped(count: u64, period: u64, capacity: u64) -> Self {
        // At one unit per nanosecond, time advances evenly.
        let (surplus, step) = match period {
            1 => ([0, 0], 0),
            _ => (fraction(1, period as u128), count),
        };
        Self {
            emission_interval: 1,
            burst_tolerance: capacity,
            surplus,
            step,
            lack: fraction(count as u128 - 1, count as u128),
            stride: period,
            ..Self::UNLIMITED
        }
    }

    /// Returns the parameters with steps from this tick on, if time advances in steps.
    pub(crate) const fn starting(mut self, start: i64) -> Self {
        self.start = match self.is_stepped() {
            false => 0,
            true if start > LAST_TICK as i64 => LAST_TICK as i64,
            true if start < EARLIEST_START => EARLIEST_START,
            true => start,
        };
        self
    }

    /// Returns whether a unit is a nanosecond. Any other ratio, and any step, is a fraction of at
    /// least one part in a period, which is more than a 2^64th, so one half is enough to decide.
    #[inline(always)]
    pub(crate) const fn is_even(&self) -> bool {
        self.surplus[0] == 0
    }

    /// Returns the units that have passed at a tick.
    #[inline(always)]
    pub(crate) const fn units_at(&self, tick: Tick) -> u64 {
        if !self.is_even() && self.is_dense() {
            self.dense_units_at(clamped(tick))
        } else {
            self.units_unless_dense(tick)
        }
    }

    /// Does the same for parameters that are not dense, and takes fewer instructions.
    #[inline(always)]
    pub(crate) const fn units_unless_dense(&self, tick: Tick) -> u64 {
        let nanos = clamped(tick);
        if self.is_even() {
            nanos
        } else if self.step == 0 {
            nanos + part(nanos, self.surplus)
        } else {
            // A tick has 58 bits.
            let since = nanos as i64 - self.start;
            let steps = part(if since < 0 { 0 } else { since as u64 }, self.surplus);
            // It wraps only if the parameters were read while they changed, and nothing uses it
            // then.
            steps.wrapping_mul(self.step)
        }
    }

    const fn dense_units_at(&self, nanos: u64) -> u64 {
        let units = nanos * (self.step & !DENSE) + part(nanos, self.surplus);
        if units > LAST_UNIT { LAST_UNIT } else { units }
    }

    /// Returns the first whole unit that has not begun to pass before this tick.
    pub(crate) const fn units_after(&self, tick: Tick) -> u64 {
        let is_whole = self.surplus[0] == NONE[0] && self.surplus[1] == NONE[1];
        let units = self.units_at(tick);
        let may_begin = !self.is_stepped() && !is_whole && units < LAST_UNIT;
        let begun = may_begin && leaves_a_rest(clamped(tick), self.surplus);
        units + begun as u64
    }

    /// Returns the units of `tokens`, saturating.
    #[inline]
    pub(crate) const fn units_of(&self, tokens: u64) -> u64 {
        self.emission_interval.saturating_mul(tokens)
    }

    /// Returns the whole tokens in `units`: any number if there is no limit.
    pub(crate) const fn tokens(&self, units: u64) -> u64 {
        match units.checked_div(self.emission_interval) {
            Some(tokens) => tokens,
            None => u64::MAX,
        }
    }

    /// Returns the tokens in a backlog of `units`, rounded up: none if there is no limit.
    pub(crate) const fn backlog(&self, units: u64) -> u64 {
        if self.is_unlimited() {
            0
        } else {
            units.div_ceil(self.emission_interval)
        }
    }

    /// Returns the maximum number of tokens at once.
    pub(crate) const fn burst(&self) -> u64 {
        self.tokens(self.burst_tolerance)
    }

    /// Returns the first tick at which `units` have passed, or never if that is after the
    /// [last](LAST_TICK).
    #[inline]
    pub(crate) const fn tick_at(&self, units: u64) -> Tick {
        match units {
            // This also holds if steps are counted from a later tick.
            0 => Tick::from_nanos(0),
            1..=LAST_UNIT => self.tick_at_or_before_last(units),
            _ => Tick::from_nanos(u64::MAX),
        }
    }

    /// Returns the beginning of the step at `now`, if time advances in steps. It may be before the epoch, or after
    /// `now` if steps are counted from a later tick.
    pub(crate) const fn step_begun(&self, now: Tick) -> i64 {
        match self.units_at(now).checked_div(self.step) {
            Some(steps) => self.start + (steps * self.stride) as i64,
            None => 0,
        }
    }

    /// Returns the tick from which steps are counted after a change of the quota. If steps are `aligned`, it stays
    /// the same. Otherwise a step that has begun continues with the length of the new one, so the time between the
    /// beginnings of two steps is never less than a step before or after the change.
    pub(crate) const fn start_after_change(&self, aligned: bool, now: Tick) -> i64 {
        if aligned {
            self.start
        } else if self.is_stepped() {
            self.step_begun(now)
        } else {
            clamped(now) as i64
        }
    }

    /// Does the same for units up to the [last](LAST_UNIT).
    #[inline(always)]
    pub(crate) const fn tick_at_or_before_last(&self, units: u64) -> Tick {
        let nanos = (units - part(units, self.lack)).saturating_mul(self.stride);
        tick_or_never(nanos.saturating_add_signed(self.start))
    }
}

/// Returns the nanoseconds of a tick; for a tick after the [last](LAST_TICK), those of the last.
#[inline(always)]
pub(crate) const fn clamped(tick: Tick) -> u64 {
    let nanos = tick.as_nanos();
    if nanos > LAST_TICK { LAST_TICK } else { nanos }
}

/// Returns the tick after `nanos` nanoseconds, or never if that is after the [last](LAST_TICK).
#[inline(always)]
pub(crate) const fn tick_or_never(nanos: u64) -> Tick {
    Tick::from_nanos(if nanos > LAST_TICK { u64::MAX } else { nanos })
}

/// Returns `numerator / denominator`, which is below 1, as a fraction of 2^128, rounded up.
const fn fraction(numerator: u128, denominator: u128) -> [u64; 2] {
    // Both are below 2^65, so 32 bits at a time fit.
    let high = (numerator << 32) / denominator;
    let rest = (numerator << 32) % denominator;
    let high = (high << 32) + (rest << 32) / denominator;
    let rest = (rest << 32) % denominator;
    let low = (rest << 32) / denominator;
    let rest = (rest << 32) % denominator;
    let low = (low << 32) + (rest << 32).div_ceil(denominator);
    [high as u64 + (low >> 64) as u64, low as u64]
}

/// Returns `number` times a fraction of 2^128, rounded down.
#[inline(always)]
const fn part(number: u64, fraction: [u64; 2]) -> u64 {
    let number = number as u128;
    let low = (number * fraction[1] as u128) >> 64;
    ((number * fraction[0] as u128 + low) >> 64) as u64
}

/// Returns whether `number` times a fraction of 2^128 is not whole. The fraction was rounded up by
/// less than a 2^128th, so a whole product is off by less than a 2^64th, and leaves no rest in 64
/// bits. Any other is a multiple of one part in a period, which is more than a 2^64th.
const fn leaves_a_rest(number: u64, fraction: [u64; 2]) -> bool {
    let low = (number as u128 * fraction[1] as u128) >> 64;
    let rest = (number as u128 * fraction[0] as u128 + low) as u64;
    rest != 0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use num_bigint::BigUint;
    use proptest::prelude::*;

    use super::*;

    fn quota() -> impl Strategy<Value = Quota> {
        let period = prop_oneof![
            1..=100_u64,
            Just(1_000_000_000),
            1..=1_u64 << 58,
            (0..64_u32).prop_map(|shift| 1_u64 << shift),
            1_u64 << 58..=u64::MAX,
            (58..64_u32, 1..4_u64).prop_map(|(shift, less)| (1_u64 << shift) - less),
        ];
        // With a count that is a power of two, and a period just below one, a nanosecond has hardly
        // more than a unit.
        let power = (0..64_u32).prop_map(|shift| 1_u64 << shift);
        let count = prop_oneof![1..=100_u64, 1..=u64::MAX, power];
        (period, count, 1..=u64::MAX).prop_map(|(period, count, burst)| {
            // A token takes at most 2^58 nanoseconds.
            let least = period.div_ceil(1 << 58);
            let count = count.clamp(least, period.saturating_mul(16));
            let most = if count / 2 >= period {
                u128::from(LARGEST_BURST)
            } else {
                (u128::from(count) << 58) / u128::from(period)
            };
            let burst = u128::from(burst).min(most).max(1);
            Quota::try_new(count, Duration::from_nanos(period), burst as u64).unwrap()
        })
    }

    fn tick() -> impl Strategy<Value = u64> {
        prop_oneof![
            0..=3_u64,
            0..=1000_u64,
            0..=LAST_TICK,
            LAST_TICK - 1000..=LAST_TICK
        ]
    }

    /// Returns the units at a tick, computed in the most obvious way.
    fn naive(quota: Quota, tick: u64) -> u64 {
        let (count, period) = (quota.count(), quota.period_nanos());
        let units = BigUint::from(period.div_ceil(count)) * count;
        u64::try_from(BigUint::from(tick) * units / period)
            .unwrap()
            .min(LAST_UNIT)
    }

    /// Returns the same, rounded up.
    fn naive_up(quota: Quota, tick: u64) -> u64 {
        let (count, period) = (quota.count(), quota.period_nanos());
        let units = BigUint::from(period.div_ceil(count)) * count;
        u64::try_from((BigUint::from(tick) * units + (period - 1)) / period)
            .unwrap()
            .min(LAST_UNIT)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn units_are_exact(quota in quota(), tick in tick()) {
            let params = Params::new(quota);
            prop_assert_eq!(params.units_at(Tick::from_nanos(tick)), naive(quota, tick));
            prop_assert_eq!(params.units_after(Tick::from_nanos(tick)), naive_up(quota, tick));
        }

        #[test]
        fn the_tick_of_some_units_is_the_first(quota in quota(), tick in tick(), more in 0..3_u64) {
            let units = naive(quota, tick) + more;
            let first = Params::new(quota).tick_at(units).as_nanos();
            if first == u64::MAX {
                prop_assert!(naive(quota, LAST_TICK) < units);
            } else {
                prop_assert!(naive(quota, first) >= units);
                prop_assert!(first == 0 || naive(quota, first - 1) < units);
            }
        }

        #[test]
        fn steps_are_exact(quota in quota(), tick in tick(), more in 0..3_u64) {
            // An algorithm with steps allows no period longer than this.
            let period = quota.period_nanos().min(1 << 58);
            let count = quota.count().min(period);
            let params = Params::stepped(count, period, count);
            let units = tick / period * count;
            prop_assert_eq!(params.units_at(Tick::from_nanos(tick)), units);
            let units = units + more;
            let first = u128::from(units.div_ceil(count)) * u128::from(period);
            let first = u64::try_from(first).ok().filter(|first| *first <= LAST_TICK);
            let found = params.tick_at(units);
            prop_assert_eq!(found.as_nanos(), first.unwrap_or(u64::MAX));
        }

        #[test]
        fn a_burst_fits(quota in quota()) {
            let params = Params::new(quota);
            prop_assert_eq!(params.burst(), quota.max_burst());
            prop_assert!(params.burst_tolerance < 1 << 60);
        }
    }

    #[test]
    fn starting_at_the_first_tick_of_all_counts_without_overflow() {
        let params = Params::stepped(3, 10, 3).starting(i64::MIN);
        let passed = params.units_at(Tick::from_nanos(u64::MAX));
        assert_eq!(passed, ((1 << 62) + LAST_TICK) / 10 * 3);
    }

    #[test]
    fn a_period_has_as_many_units_as_its_tokens() {
        for (count, period) in [
            (700_000_000, 1_000_000_000),
            (3, 10),
            (3, 1_000_000_000),
            (1, 1),
            (1_250_000_000, 1_000_000_000),
            (199, 100),
            (2, 1),
            (16, 1),
            (12_500_000_000, 1_000_000_000),
            (159, 10),
        ] {
            let params = Params::new(Quota::new(count, Duration::from_nanos(period)));
            for times in [1, 2, 1000, 1_000_003] {
                let tick = Tick::from_nanos(period * times);
                assert_eq!(params.units_at(tick), params.units_of(count * times));
            }
        }
    }
}
