//! `Quota`: what can be made and what is refused on either side of an edge, the share of one node of
//! several, and quotas in a configuration.

use std::error::Error;
use std::time::Duration;

use num_bigint::BigUint;
use proptest::prelude::*;
use tollgate::{Quota, QuotaError};

use crate::support::cases::cases;

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
        let (count, period) = if one / 16 < other {
            (one, other)
        } else {
            (other, one)
        };
        let most = u128::from(LONGEST) * u128::from(count) / u128::from(period.max(1));
        let most = if count / 2 >= period {
            LARGEST_BURST
        } else {
            u64::try_from(most).expect("the count is below twice the period")
        };
        let burst = match kind {
            0 => most,
            1 => burst.min(most),
            _ => 1,
        };
        Quota::try_new(count, Duration::from_nanos(period), burst).ok()
    })
}

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

// The share of one node of several.

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

// As a string, in a configuration.

#[cfg(feature = "serde")]
#[test]
fn a_quota_is_a_string() {
    let quota = Quota::per_second(100).burst(20);
    assert_eq!(serde_json::to_string(&quota).unwrap(), "\"100/s burst 20\"");
    let read: Quota = serde_json::from_str("\"100/s, burst 20\"").unwrap();
    assert_eq!(read, quota);
    // From a value, and with an escape in it, the text is handed over otherwise.
    assert_eq!(
        serde_json::from_value::<Quota>("100/s burst 20".into()).unwrap(),
        quota
    );
    let read: Quota = serde_json::from_str("\"100\\u002fs burst 20\"").unwrap();
    assert_eq!(read, quota);
    assert_eq!(
        serde_json::to_string(&Quota::UNLIMITED).unwrap(),
        "\"unlimited\""
    );
    let read: Quota = serde_json::from_str("\"unlimited\"").unwrap();
    assert_eq!(read, Quota::UNLIMITED);
}

#[cfg(feature = "serde")]
#[test]
fn text_that_is_no_quota_is_named_in_the_error() {
    let error = |text| {
        serde_json::from_str::<Vec<Quota>>(text)
            .unwrap_err()
            .to_string()
    };
    let week = error("[\"100/s\", \"5/week\"]");
    let expected =
        "\"5/week\" is no quota: at byte 2: expected a unit of time (d, h, min, s, ms, us or ns)";
    assert!(week.starts_with(expected), "{week}");
    let number = error("[100]");
    assert!(
        number.contains("expected a quota such as \"100/s burst 20\""),
        "{number}"
    );
}

#[cfg(feature = "serde")]
proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn what_is_serialized_is_read(quota in quotas()) {
        let text = serde_json::to_string(&quota).unwrap();
        prop_assert_eq!(serde_json::from_str::<Quota>(&text).unwrap(), quota);
    }
}
