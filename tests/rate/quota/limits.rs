//! What can be made, and what is refused on either side of an edge.

use std::error::Error;
use std::time::Duration;

use num_bigint::BigUint;
use proptest::prelude::*;
use tollgate::{Quota, QuotaError};

use super::edges::{LARGEST_BURST, LONGEST, numbers};
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
fn constructors_have_their_period_and_a_burst_of_one() {
    assert_eq!(parts(Quota::per_second(7)), (7, 1_000_000_000, 1));
    assert_eq!(parts(Quota::per_minute(7)), (7, 60_000_000_000, 1));
    assert_eq!(parts(Quota::per_hour(7)), (7, 3_600_000_000_000, 1));
    assert_eq!(parts(Quota::per_day(7)), (7, 86_400_000_000_000, 1));
    assert_eq!(parts(Quota::new(3, NANOSECOND * 10)), (3, 10, 1));
    for (bytes, burst) in [
        (1, 2048),
        (25_612, 2048),
        (25_613, 2049),
        (1_250_000_000, 100_000_000),
    ] {
        assert_eq!(
            parts(Quota::bytes_per_second(bytes)),
            (bytes, 1_000_000_000, burst)
        );
        let tried = Quota::try_bytes_per_second(bytes);
        assert_eq!(tried, Ok(Quota::bytes_per_second(bytes)));
    }
    // A burst replaces the one before and nothing else.
    let quota = Quota::per_minute(3).burst(20);
    assert_eq!(parts(quota), (3, 60_000_000_000, 20));
    assert_eq!(quota.burst(1), Quota::per_minute(3));
}

#[test]
fn unlimited_split_or_with_a_burst_stays_unlimited() {
    const SHARE: Quota = Quota::UNLIMITED.split(3).burst(7);
    assert_eq!(SHARE, Quota::UNLIMITED);
    assert_eq!(parts(SHARE), (u64::MAX, 1, u64::MAX));
    assert!(SHARE.is_unlimited());
    let most = Quota::new(u64::MAX, LONGEST_PERIOD).burst(LONGEST);
    for quota in [
        Quota::new(1, NANOSECOND),
        most,
        Quota::new(u64::MAX, Duration::from_nanos(1 << 63)),
    ] {
        assert!(!quota.is_unlimited());
    }
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

/// At most 16 per nanosecond, in a period of at most `u64::MAX` nanoseconds, and a burst that takes
/// at most 2^58 of them to come back; nothing may be zero.
#[test]
fn quotas_on_either_side_of_an_edge_are_made_and_refused() {
    // Three in ten nanoseconds: 2^58 is not divided by ten, and a part of a token does not count.
    let most = LONGEST * 3 / 10;
    for (count, period, burst) in [
        (1_000_000_000, 1_000_000_000, 1),
        (1, 1, 1),
        (u64::MAX, u64::MAX, 1),
        (64, u64::MAX, 1),
        (1, LONGEST, 1),
        (u64::MAX, u64::MAX, LONGEST),
        (1_999_999_999, 1_000_000_000, 1),
        (u64::MAX, u64::MAX / 2 + 1, 2 * LONGEST - 1),
        (u64::MAX - 1, u64::MAX / 2, LARGEST_BURST),
        (16_000_000_000, 1_000_000_000, LARGEST_BURST),
        (16, 1, 1),
        (3, 10, most),
    ] {
        let quota = Quota::new(count, Duration::from_nanos(period)).burst(burst);
        assert_eq!(parts(quota), (count, u128::from(period), burst));
    }
    for (count, period, burst, expected) in [
        (16_000_000_001, 1_000_000_000, 1, "too many"),
        (17, 1, 1, "too many"),
        (u64::MAX, u64::MAX / 17, 1, "too many"),
        (u64::MAX, u64::MAX / 2 + 1, 2 * LONGEST, "to come back"),
        (1, LONGEST + 1, 1, "to come back"),
        (1, LONGEST, 2, "to come back"),
        (2, 2 * LONGEST + 1, 1, "to come back"),
        (u64::MAX, u64::MAX, LONGEST + 1, "to come back"),
        (u64::MAX, u64::MAX, u64::MAX, "to come back"),
        (3, 10, most + 1, "to come back"),
        (0, 1000, 1, "a count of 0"),
        (1, 0, 1, "a period of 0ns"),
        (1, 1000, 0, "a burst of 0"),
    ] {
        let expected = match expected {
            "too many" => "more than 16 per nanosecond",
            "to come back" => {
                "a token or a burst that takes more than 2^58 ns (nine years) to come back"
            }
            zero => zero,
        };
        let period = Duration::from_nanos(period);
        let text = refused(count, period, burst);
        let values = format!("{count} in {period:?}, burst {burst}");
        assert_eq!(text, format!("a quota cannot have {expected}: {values}"));
    }
    for count in [2_000_000_000, 16_000_000_000] {
        let text = refused(count, Duration::from_secs(1), LARGEST_BURST + 1);
        let expected =
            "a quota of two per nanosecond or more cannot have a burst of more than 2^56";
        let values = format!("{count} in 1s, burst {}", LARGEST_BURST + 1);
        assert_eq!(text, format!("{expected}: {values}"));
    }
    for period in [LONGEST_PERIOD + NANOSECOND, Duration::MAX] {
        let values = format!("{} in {period:?}, burst 1", u64::MAX);
        let expected = "a quota cannot have a period of more than 2^64 - 1 ns";
        assert_eq!(
            refused(u64::MAX, period, 1),
            format!("{expected}: {values}")
        );
    }
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
        let too_many = BigUint::from(count) > BigUint::from(period) * 16_u32
            || count / 2 >= period && burst > LARGEST_BURST;
        let refused = count == 0 || period == 0 || burst == 0 || too_many || extreme;
        prop_assert_eq!(quota.is_err(), refused);
        if let Ok(quota) = quota {
            prop_assert_eq!(parts(quota), (count, u128::from(period), burst));
        }
    }
}
