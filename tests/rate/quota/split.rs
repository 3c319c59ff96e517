//! The share of one node of several.

use std::time::Duration;

use num_bigint::BigUint;
use proptest::prelude::*;
use tollgate::Quota;

use super::edges::{LONGEST, quotas};
use crate::support::cases::cases;

fn nanos(quota: Quota) -> u64 {
    u64::try_from(quota.period().as_nanos()).expect("a quota's period fits")
}

#[test]
fn a_share_is_the_same_count_over_a_longer_period() {
    let quota = Quota::per_second(100).burst(20);
    assert_eq!(quota.split(1), quota);
    assert_eq!(quota.split(4).to_string(), "100/4s burst 5");
    assert_eq!(quota.split(7).to_string(), "100/7s burst 2");
    assert_eq!(quota.split(20).to_string(), "100/20s");
    assert_eq!(quota.split(21).to_string(), "100/21s");
    assert_eq!(Quota::per_hour(1).split(24).to_string(), "1/d");
}

#[test]
fn a_share_may_be_one_in_the_longest_time() {
    let quota = Quota::new(1, Duration::from_nanos(LONGEST / 4));
    assert_eq!(nanos(quota.split(4)), LONGEST);
    let quota = Quota::new(u64::MAX, Duration::from_nanos(u64::MAX));
    let share = quota.split(u32::MAX);
    assert_eq!(share.count(), (1 << 32) + 1);
    assert_eq!(nanos(share), u64::MAX);
}

/// 1001 a year on a thousand machines: the thousand years do not fit.
#[test]
fn a_period_that_is_too_long_is_shortened_with_its_count() {
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    let share = Quota::new(1001, year).split(1000);
    assert_eq!(share.count(), 585);
    let exact = year.as_nanos() * 1000 * 585;
    assert_eq!(u128::from(nanos(share)), exact.div_ceil(1001));
}

/// 3 of 192 in 2^63 nanoseconds take 2^57 to come back, on either of two nodes 2^58: the most there
/// can be. But 2^64 do not fit, and 3 of 191 in the time of those, rounded up, take longer.
#[test]
fn a_burst_that_takes_too_long_after_the_rounding_is_one_less() {
    let quota = Quota::new(192, Duration::from_nanos(1 << 63)).burst(6);
    let share = quota.split(2);
    assert_eq!((share.count(), share.max_burst()), (191, 2));
    assert_eq!(nanos(share), 18_350_667_281_658_981_035);
    assert!(Quota::try_new(191, share.period(), 3).is_err());
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Cross-multiplied, so that nothing is rounded here.
    #[test]
    fn the_rates_of_the_shares_add_up(quota in quotas(), nodes in nodes()) {
        let long = BigUint::from(nanos(quota)) * nodes;
        prop_assume!(BigUint::from(LONGEST) * quota.count() >= long);
        let share = quota.split(nodes);
        let whole = BigUint::from(quota.count()) * nanos(share);
        let shares = &long * share.count();
        if long <= BigUint::from(u64::MAX) {
            prop_assert_eq!(share.count(), quota.count());
            prop_assert_eq!(shares, whole);
        } else {
            prop_assert!(shares <= whole);
            prop_assert!((&whole - shares) << 63_u32 <= whole);
        }
    }

    #[test]
    fn the_bursts_of_the_shares_are_within_the_whole(quota in quotas(), nodes in nodes()) {
        let long = u128::from(nanos(quota)) * u128::from(nodes);
        prop_assume!(u128::from(LONGEST) * u128::from(quota.count()) >= long);
        let share = quota.split(nodes);
        let sum = u128::from(share.max_burst()) * u128::from(nodes);
        let burst = u128::from(quota.max_burst());
        prop_assert!(sum <= burst.max(nodes.into()));
        // One less is possible if the period did not fit, and what does not divide is lost.
        let lost = if long <= u128::from(u64::MAX) { 1 } else { 2 };
        prop_assert!(sum + lost * u128::from(nodes) > burst);
        let made = Quota::try_new(share.count(), share.period(), share.max_burst());
        prop_assert_eq!(made, Ok(share));
    }
}

fn nodes() -> impl Strategy<Value = u32> {
    prop_oneof![1..100_u32, 1..=u32::MAX, Just(u32::MAX), Just(1 << 31)]
}
