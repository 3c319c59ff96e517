//! [`Promise`]: the form in which an algorithm uses a quota, and the bound that it keeps.
//!
//! The algorithms that decide by a word have nothing else of their own: [`Gcra`](super::gcra::Gcra)
//! decides with the parameters of their promise.

use std::time::Duration;

use super::choice::Algorithm;
use super::params::Params;
use crate::quota::Quota;

/// The longest period, in nanoseconds.
const LONGEST_PERIOD: u64 = 1 << 58;

/// The largest count of a sliding window.
pub(super) const LARGEST_WINDOW: u64 = 1 << 47;

/// The largest count of a log.
const LONGEST_LOG: u64 = 1 << 28;

/// The reason why there are no sub-intervals of 0 parts, for any quota.
pub(super) const NO_PARTS: &str = "a period cannot be cut into 0 parts";

/// A quota in the form that an algorithm uses, if it fits.
#[derive(Clone, Copy)]
pub(crate) struct Promise {
    /// The count comes back after each period, and at most the burst is available at once.
    pub(super) batch: Quota,
    pub(super) bound: Bound,
}

/// The maximum that is admitted in a time.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    /// The burst, and the rate times the time: tokens come back evenly.
    Even,
    /// The burst, and a whole batch for each multiple of its period in the time.
    Batches,
    /// This number of tokens, in any period.
    Period(u64),
}

impl Algorithm {
    /// Returns the reason if the quota does not fit.
    pub(super) const fn misfit(self, quota: Quota) -> Option<&'static str> {
        if matches!(self, Self::Gcra) {
            return None;
        }
        let (count, burst) = (quota.count(), quota.max_burst());
        let is_whole = burst == 1 || burst == count;
        Some(match self {
            _ if quota.is_unlimited() => "batches, windows and logs cannot be unlimited",
            _ if quota.period_nanos() > LONGEST_PERIOD => {
                "batches, windows and logs have a period of at most 2^58 ns"
            }
            _ if count > quota.period_nanos() => {
                "batches, windows and logs have at most one per nanosecond"
            }
            Self::TokenBucket => return None,
            _ if !is_whole => "a window or a log allows its whole count at once",
            Self::SlidingWindow if count > LARGEST_WINDOW => {
                "a sliding window has a count of at most 2^47"
            }
            Self::SlidingLog if count > LONGEST_LOG => "a log holds at most 2^28",
            Self::SubInterval { parts: 0 } => NO_PARTS,
            Self::SubInterval { parts } if parts as u64 >= count => {
                "a period in parts needs a count that is larger than the number of parts"
            }
            Self::Gcra | Self::FixedWindow | Self::SlidingWindow => return None,
            Self::SlidingLog | Self::SubInterval { .. } => return None,
        })
    }

    /// Returns the promise for a quota.
    #[track_caller]
    pub(crate) const fn promise(self, quota: Quota) -> Promise {
        if let Some(reason) = self.misfit(quota) {
            panic!("{}", reason);
        }
        let (count, burst) = (quota.count(), quota.max_burst());
        let (batch, bound) = match self {
            Self::Gcra => (quota, Bound::Even),
            Self::TokenBucket if burst == 1 => (quota.burst(count), Bound::Batches),
            // Tokens without room in the bucket are lost.
            Self::TokenBucket if burst < count => {
                let batch = Quota::new(burst, quota.period());
                (batch.burst(burst), Bound::Batches)
            }
            Self::TokenBucket => (quota, Bound::Batches),
            Self::FixedWindow => (quota.burst(count), Bound::Batches),
            Self::SlidingWindow => (quota.burst(count), Bound::Period(2 * count - 1)),
            Self::SlidingLog => (quota.burst(count), Bound::Period(count)),
            // There is a window for each part: any period touches at most one more window than
            // there are parts.
            Self::SubInterval { parts } => {
                let part = quota.period_nanos().div_ceil(parts as u64);
                let each = count / (parts as u64 + 1);
                let batch = Quota::new(each, Duration::from_nanos(part));
                (batch.burst(each), Bound::Batches)
            }
        };
        Promise { batch, bound }
    }
}

impl Promise {
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

    /// Returns the maximum that is admitted in any time of this length, excluding its end.
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
