//! What can be made, and what is refused on either side of an edge.

use std::error::Error;
use std::time::Duration;

use num_bigint::BigUint;
use proptest::prelude::*;
use tollgate::{Quota, QuotaError};

use super::edges::{LONGEST, numbers};
use crate::support::cases::cases;

const NANOSECOND: Duration = Duration::from_nanos(1);
const LONGEST_PERIOD: Duration = Duration::from_nanos(u64::MAX);

/// Parts of a quota as plain numbers, the period in nanoseconds.
fn parts(quota: Quota) -> (u64, u128, u64) {
    (quota.count(), quota.period().as_nanos(), quota.max_burst())
}

#[track_caller]
fn refused(count: u64, period: Duration, burst: u64) -> String {
    let error = Quota::try_new(count, period, burst);
    error.expect_err("there is such a quota").to_string()
}

#[test]
fn each_constructor_has_its_period_and_a_burst_of_one() {
    assert_eq!(parts(Quota::per_second(7)), (7, 1_000_000_000, 1));
    assert_eq!(parts(Quota::per_minute(7)), (7, 60_000_000_000, 1));
    assert_eq!(parts(Quota::per_hour(7)), (7, 3_600_000_000_000, 1));
    assert_eq!(parts(Quota::per_day(7)), (7, 86_400_000_000_000, 1));
    assert_eq!(parts(Quota::new(3, NANOSECOND * 10)), (3, 10, 1));
}

#[test]
fn a_burst_replaces_the_one_before_and_nothing_else() {
    let quota = Quota::per_minute(3).burst(20);
    assert_eq!(parts(quota), (3, 60_000_000_000, 20));
    assert_eq!(quota.burst(1), Quota::per_minute(3));
}

#[test]
fn the_same_rate_written_otherwise_is_another_quota() {
    assert_ne!(Quota::per_second(1), Quota::per_minute(60));
    assert_eq!(
        Quota::per_second(1),
        Quota::new(1, Duration::from_millis(1000))
    );
}

static IN_A_STATIC: Quota = Quota::per_second(50).burst(10);
const TRIED: Result<Quota, QuotaError> = Quota::try_new(1, Duration::ZERO, 1);
const SHARE: Quota = Quota::new(9, Duration::from_secs(90)).burst(9).split(4);
const PERIOD: Duration = SHARE.period();

#[test]
fn everything_can_be_made_by_the_compiler() {
    assert_eq!(parts(IN_A_STATIC), (50, 1_000_000_000, 10));
    assert!(TRIED.is_err());
    assert_eq!((SHARE.max_burst(), PERIOD), (2, Duration::from_secs(360)));
    const DAILY: [u64; 3] = [
        Quota::per_minute(1).count(),
        Quota::per_hour(2).count(),
        Quota::per_day(3).max_burst(),
    ];
    assert_eq!(DAILY, [1, 2, 1]);
}

#[test]
fn one_per_nanosecond_is_the_most() {
    assert_eq!(Quota::per_second(1_000_000_000).count(), 1_000_000_000);
    assert_eq!(Quota::new(1, NANOSECOND).period(), NANOSECOND);
    let fastest = Quota::new(u64::MAX, LONGEST_PERIOD);
    assert_eq!(parts(fastest), (u64::MAX, u128::from(u64::MAX), 1));
    let most = "but at most one per nanosecond";
    for (count, period) in [
        (1_000_000_001, Duration::from_secs(1)),
        (2, NANOSECOND),
        (u64::MAX, LONGEST_PERIOD - NANOSECOND),
    ] {
        assert_eq!(
            refused(count, period, 1),
            format!(
                "a quota cannot have {count} in {}ns, {most}",
                period.as_nanos()
            )
        );
    }
}

#[test]
fn a_burst_may_take_exactly_so_long_to_come_back() {
    let longest = Duration::from_nanos(LONGEST);
    let one = Quota::new(1, longest);
    assert_eq!(parts(one), (1, u128::from(LONGEST), 1));
    let fastest = Quota::new(u64::MAX, LONGEST_PERIOD);
    assert_eq!(fastest.burst(LONGEST).max_burst(), LONGEST);
    // Three in ten nanoseconds: 2^58 is not divided by ten, and a part of a token does not count.
    let most = LONGEST * 3 / 10;
    let three = Quota::new(3, NANOSECOND * 10);
    assert_eq!(three.burst(most).max_burst(), most);
    for (count, period, burst) in [
        (1, LONGEST + 1, 1),
        (1, LONGEST, 2),
        (2, 2 * LONGEST + 1, 1),
        (u64::MAX, u64::MAX, LONGEST + 1),
        (u64::MAX, u64::MAX, u64::MAX),
        (3, 10, most + 1),
    ] {
        assert_eq!(
            refused(count, Duration::from_nanos(period), burst),
            format!(
                "a quota cannot have a burst of {burst} at {count} in {period}ns, \
                 which takes more than 2^58ns to come back"
            )
        );
    }
}

#[test]
fn a_period_has_to_fit() {
    let quota = Quota::new(64, LONGEST_PERIOD);
    assert_eq!(quota.period(), LONGEST_PERIOD);
    for period in [LONGEST_PERIOD + NANOSECOND, Duration::MAX] {
        let expected = format!(
            "a quota cannot have a period of {}ns, but at most {}ns",
            period.as_nanos(),
            u64::MAX
        );
        assert_eq!(refused(u64::MAX, period, 1), expected);
    }
}

#[test]
fn nothing_of_it_may_be_zero() {
    let second = Duration::from_secs(1);
    let zero = |what: &str| format!("a quota cannot have a {what}");
    assert_eq!(refused(0, second, 1), zero("count of 0"));
    assert_eq!(refused(1, Duration::ZERO, 1), zero("period of 0ns"));
    assert_eq!(refused(1, second, 0), zero("burst of 0"));
}

#[test]
fn an_error_is_plain_data() {
    let error = Quota::try_new(0, NANOSECOND, 1).unwrap_err();
    let copy = error;
    let boxed: Box<dyn Error + Send + Sync> = Box::new(copy);
    assert_eq!(boxed.to_string(), error.to_string());
    assert_ne!(Err(error), Quota::try_new(1, NANOSECOND, 0));
    let debug = format!("{error:?}");
    assert!(debug.starts_with("QuotaError"), "{debug}");
}

proptest! {
    #![proptest_config(cases(1000))]

    /// The rules as they are documented, in numbers that do not overflow.
    #[test]
    fn what_is_refused_is_what_is_documented(
        count in numbers(),
        period in numbers(),
        burst in prop_oneof![numbers(), Just(1), Just(2)],
    ) {
        let quota = Quota::try_new(count, Duration::from_nanos(period), burst);
        let extreme = BigUint::from(burst) * period > BigUint::from(LONGEST) * count;
        let refused = count == 0 || period == 0 || burst == 0 || count > period || extreme;
        prop_assert_eq!(quota.is_err(), refused);
        if let Ok(quota) = quota {
            prop_assert_eq!(parts(quota), (count, u128::from(period), burst));
        }
    }
}
