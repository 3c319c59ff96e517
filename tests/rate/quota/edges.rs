//! Quotas for property tests, most of them at an edge of what there can be.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::Quota;

/// How many nanoseconds a burst may take to come back.
pub(crate) const LONGEST: u64 = 1 << 58;

/// The largest burst of a quota of two per nanosecond or more.
pub(crate) const LARGEST_BURST: u64 = 1 << 56;

/// From a nanosecond to a day.
pub(crate) const UNITS: [u64; 7] = [
    1,
    1_000,
    1_000_000,
    1_000_000_000,
    60_000_000_000,
    3_600_000_000_000,
    86_400_000_000_000,
];

/// Small ones, large ones, powers of two and multiples of units, and what is beside those.
pub(crate) fn numbers() -> impl Strategy<Value = u64> {
    let powers = (0..64_u32).prop_map(|exponent| 1 << exponent);
    let units = (0..UNITS.len(), 1..200_u64).prop_map(|(unit, times)| UNITS[unit] * times);
    let edges = prop_oneof![powers, units, Just(0), Just(u64::MAX)];
    let beside = (edges, -1..=1_i64).prop_map(|(edge, by)| edge.saturating_add_signed(by));
    prop_oneof![4 => beside, 1 => any::<u64>(), 1 => 0..100_u64]
}

/// Of any kind that there can be; every third has the largest burst that it can have.
pub(crate) fn quotas() -> impl Strategy<Value = Quota> {
    let parts = (numbers(), numbers(), numbers(), 0..3);
    parts.prop_filter_map("there is no such quota", |(one, other, burst, kind)| {
        let (count, period) = match one / 16 < other {
            true => (one, other),
            false => (other, one),
        };
        let most = u128::from(LONGEST) * u128::from(count) / u128::from(period.max(1));
        let most = match count / 2 >= period {
            true => LARGEST_BURST,
            false => u64::try_from(most).expect("the count is below twice the period"),
        };
        let burst = match kind {
            0 => most,
            1 => burst.min(most),
            _ => 1,
        };
        Quota::try_new(count, Duration::from_nanos(period), burst).ok()
    })
}
