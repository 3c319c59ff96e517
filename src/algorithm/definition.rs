//! [`Definition`] and [`Promise`]: what an algorithm states about itself, once, in its own file.
//!
//! Everything that treats all algorithms alike reads it from here, through [`Algorithm`]: checks,
//! text, limits by key and on a server, tests, benchmarks and the demonstration.
//!
//! [`Algorithm`]: super::Algorithm

use super::params::{InverseParams, Params};
use super::quota_change::QuotaChange;
use crate::quota::Quota;

/// The longest period, in nanoseconds.
const LONGEST_PERIOD: u64 = 1 << 58;

/// What an algorithm is, whatever the quota.
pub(super) struct Definition {
    /// The name in text.
    pub(super) name: &'static str,
    /// The number that follows the name and a slash, for an algorithm that has one.
    pub(super) parts: Option<u32>,
    /// Whether its whole state is a word.
    pub(super) keeps_a_word: bool,
    /// What `set_quota` does.
    pub(super) on_change: QuotaChange,
}

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
    /// Promises an even rate.
    pub(super) const fn even(quota: Quota) -> Self {
        Self {
            batch: quota,
            bound: Bound::Even,
        }
    }

    /// Promises whole batches. The error says why the quota does not fit.
    pub(super) const fn batches(batch: Quota) -> Result<Self, &'static str> {
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

    /// Promises the whole count of each period at once. The error says why the quota does not fit.
    pub(super) const fn whole_count(quota: Quota) -> Result<Self, &'static str> {
        match Self::batches(quota) {
            Ok(_) if quota.max_burst() != 1 && quota.max_burst() != quota.count() => {
                Err("a window or a log allows its whole count at once")
            }
            Ok(promise) => Ok(Self {
                batch: quota.burst(quota.count()),
                ..promise
            }),
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
    pub(super) const fn params(&self) -> (Params, InverseParams) {
        let (count, period) = (self.batch.count(), self.batch.period_nanos());
        match self.bound {
            Bound::Even => (Params::new(self.batch), InverseParams::new(self.batch)),
            Bound::Batches | Bound::Period(_) => (
                Params::stepped(count, period, self.batch.max_burst()),
                InverseParams::stepped(count, period),
            ),
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
