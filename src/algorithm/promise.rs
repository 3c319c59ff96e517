//! [`Promise`]: what an algorithm makes of a quota, and the bound that it keeps.
//!
//! The algorithms that decide by a word have nothing else of their own:
//! [`Gcra`](super::gcra::Gcra) decides by the parameters of their promise. So their promises are here;
//! those of the others are in their files.

use std::time::Duration;

use super::params::Params;
use crate::quota::Quota;

/// The longest period, in nanoseconds.
const LONGEST_PERIOD: u64 = 1 << 58;

/// Why there are no sub-intervals of 0 parts, whatever the quota.
pub(super) const NO_PARTS: &str = "a period cannot be cut into 0 parts";

/// What an algorithm makes of a quota that fits.
#[derive(Clone, Copy)]
pub(crate) struct Promise {
    /// The count comes back after each period, and at most the burst is available at once.
    pub(super) batch: Quota,
    pub(super) bound: Bound,
}

/// The most that is admitted in a time.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    /// The burst, and the rate times the time: tokens come back evenly.
    Even,
    /// The burst, and a whole batch for each multiple of its period in the time.
    Batches,
    /// This number, in any period.
    Period(u64),
}

impl Promise {
    /// Promises what the token bucket does: a batch at each multiple of the period. The error says why
    /// the quota does not fit, as everywhere here.
    pub(super) const fn token_bucket(quota: Quota) -> Result<Self, &'static str> {
        let (count, burst) = (quota.count(), quota.max_burst());
        match Self::batches(quota) {
            Ok(_) if burst == 1 => Self::batches(quota.burst(count)),
            // Tokens without room in the bucket are lost.
            Ok(_) if burst < count => Self::batches(Quota::new(burst, quota.period()).burst(burst)),
            promise => promise,
        }
    }

    /// Promises what sub-intervals do: a window for each of `k` parts of the period, with `⌊N/(k+1)⌋` in
    /// each, so that any period, which touches at most `k + 1` of them, has at most `N`.
    pub(super) const fn sub_interval(quota: Quota, parts: u32) -> Result<Self, &'static str> {
        let (count, parts) = (quota.count(), parts as u64);
        match Self::whole_count(quota) {
            Ok(_) if parts == 0 => Err(NO_PARTS),
            Ok(_) if parts >= count => {
                Err("a period in parts needs a count that is larger than the number of parts")
            }
            Ok(_) => {
                let part = Duration::from_nanos(quota.period_nanos().div_ceil(parts));
                let each = count / (parts + 1);
                Self::batches(Quota::new(each, part).burst(each))
            }
            Err(reason) => Err(reason),
        }
    }

    /// Promises whole batches.
    const fn batches(batch: Quota) -> Result<Self, &'static str> {
        if batch.is_unlimited() {
            return Err("batches, windows and logs cannot be unlimited");
        }
        if batch.period_nanos() > LONGEST_PERIOD {
            return Err("batches, windows and logs have a period of at most 2^58 ns");
        }
        if batch.count() > batch.period_nanos() {
            return Err("batches, windows and logs have at most one per nanosecond");
        }
        Ok(Self {
            batch,
            bound: Bound::Batches,
        })
    }

    /// Promises what windows and logs do: the whole count of each period at once.
    pub(super) const fn whole_count(quota: Quota) -> Result<Self, &'static str> {
        match Self::batches(quota) {
            Ok(_) if quota.max_burst() != 1 && quota.max_burst() != quota.count() => {
                Err("a window or a log allows its whole count at once")
            }
            Ok(_) => Self::batches(quota.burst(quota.count())),
            Err(reason) => Err(reason),
        }
    }

    /// Promises at most `most` in any period instead.
    pub(super) const fn in_any_period(self, most: u64) -> Self {
        Self {
            bound: Bound::Period(most),
            ..self
        }
    }

    /// Returns the parameters of a rule whose whole state is a word.
    pub(crate) const fn params(&self) -> Params {
        let (count, period) = (self.batch.count(), self.batch.period_nanos());
        match self.bound {
            Bound::Even => Params::new(self.batch),
            Bound::Batches | Bound::Period(_) => {
                Params::stepped(count, period, self.batch.max_burst())
            }
        }
    }

    /// Returns the most that is admitted in any time of this length, without its end.
    pub(super) const fn most_in(&self, nanos: u64) -> u64 {
        if nanos == 0 {
            return 0;
        }
        let (count, period) = (self.batch.count(), self.batch.period_nanos() as u128);
        let (nanos, burst) = (nanos as u128, self.batch.max_burst() as u128);
        let most = match self.bound {
            Bound::Even => burst + nanos * count as u128 / period,
            Bound::Batches => burst + (nanos - 1).div_ceil(period) * count as u128,
            Bound::Period(most) => nanos.div_ceil(period) * most as u128,
        };
        if most > u64::MAX as u128 {
            return u64::MAX;
        }
        most as u64
    }
}
