//! `Quota`: its notation and its parser, the constructors and their bounds on either side of an edge, the share
//! of one node of several, and quotas in a configuration.

use std::error::Error;
use std::time::Duration;

use num_bigint::BigUint;
use proptest::prelude::*;
use tollgate::Quota;
use tollgate::rate::QuotaError;

use crate::setup::{ms, secs};
use crate::support::cases::cases;

/// The longest refill time of a burst, in nanoseconds.
const LONGEST: u64 = 1 << 58;

/// The largest burst of a quota of two per nanosecond or more.
const LARGEST_BURST: u64 = 1 << 56;

/// From a nanosecond to a day.
const UNITS: [u64; 7] = [
    1,
    1_000,
    1_000_000,
    1_000_000_000,
    60_000_000_000,
    3_600_000_000_000,
    86_400_000_000_000,
];

/// Draws small numbers, large ones, powers of two and multiples of units, and neighbors of these.
fn numbers() -> impl Strategy<Value = u64> {
    let powers = (0..64_u32).prop_map(|exponent| 1 << exponent);
    let units = (0..UNITS.len(), 1..200_u64).prop_map(|(unit, times)| UNITS[unit] * times);
    let edges = prop_oneof![powers, units, Just(0), Just(u64::MAX)];
    let beside = (edges, -1..=1_i64).prop_map(|(edge, by)| edge.saturating_add_signed(by));
    prop_oneof![4 => beside, 1 => any::<u64>(), 1 => 0..100_u64]
}

/// Draws a quota of any possible kind; every third has its largest possible burst.
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

/// Returns the parts of a quota as plain numbers, the period in nanoseconds.
fn parts(quota: Quota) -> (u64, u128, u64) {
    (quota.count(), quota.period().as_nanos(), quota.max_burst())
}

const fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

#[track_caller]
fn is_refused(text: &str, expected: &str) {
    let error = text.parse::<Quota>().expect_err(text);
    assert_eq!(error.to_string(), expected, "{text:?}");
}

/// The period is in the largest unit that divides it, and the burst is written except for a burst
/// of 1. Bytes have a burst of 80 ms.
#[test]
fn quota_of_each_constructor_is_written_in_the_largest_unit() {
    for (quota, text) in [
        (Quota::per_second(100), "100/s"),
        (Quota::per_minute(5), "5/min"),
        (Quota::per_hour(1), "1/h"),
        (Quota::per_day(2), "2/d"),
        (Quota::new(60, secs(60)), "60/min"),
        (Quota::new(1, secs(90 * 60)), "1/90min"),
        (Quota::new(1, secs(91)), "1/91s"),
        (Quota::new(1, secs(7 * 24 * 60 * 60)), "1/7d"),
        (Quota::new(7, ms(1500)), "7/1500ms"),
        (Quota::new(1, ms(1)), "1/ms"),
        (Quota::new(1, Duration::from_micros(1)), "1/us"),
        (Quota::new(3, nanos(1001)), "3/1001ns"),
        (Quota::new(16, nanos(1)).burst(100), "16/ns burst 100"),
        (Quota::new(10, secs(10)).burst(5), "10/10s burst 5"),
        (Quota::per_minute(3).burst(20).burst(1), "3/min"),
        (Quota::bytes_per_second(1), "1/s burst 2048"),
        (Quota::bytes_per_second(25_612), "25612/s burst 2048"),
        (Quota::bytes_per_second(25_613), "25613/s burst 2049"),
        (Quota::UNLIMITED, "unlimited"),
    ] {
        assert_eq!(quota.to_string(), text);
        assert_eq!(text.parse(), Ok(quota));
    }
    let bytes = Quota::try_bytes_per_second(1_250_000_000).unwrap();
    assert_eq!(bytes.to_string(), "1250000000/s burst 100000000");
    assert_eq!(bytes, Quota::bytes_per_second(1_250_000_000));
    let quota = Quota::per_second(100);
    let table = format!("[{quota:>8}] [{quota:<8}] [{:>10}]", Quota::UNLIMITED);
    assert_eq!(table, "[   100/s] [100/s   ] [ unlimited]");
    // The same rate in other words is another quota.
    assert_ne!(Quota::per_second(1), Quota::per_minute(60));
}

static IN_A_STATIC: Quota = Quota::per_second(50).burst(10);
const TRIED: Result<Quota, QuotaError> = Quota::try_new(1, Duration::ZERO, 1);
const SHARE: Quota = Quota::new(9, secs(90)).burst(9).split(4);
const PERIOD: Duration = SHARE.period();
const UNLIMITED: Quota = Quota::UNLIMITED.split(3).burst(7);

#[test]
fn everything_can_be_made_by_the_compiler() {
    assert_eq!(parts(IN_A_STATIC), (50, 1_000_000_000, 10));
    assert!(TRIED.is_err());
    assert_eq!((SHARE.max_burst(), PERIOD), (2, secs(360)));
    const DAILY: [u64; 3] = [
        Quota::per_minute(1).count(),
        Quota::per_hour(2).count(),
        Quota::per_day(3).max_burst(),
    ];
    assert_eq!(DAILY, [1, 2, 1]);
    assert_eq!(UNLIMITED, Quota::UNLIMITED);
    assert_eq!(parts(UNLIMITED), (u64::MAX, 1, u64::MAX));
    assert!(UNLIMITED.is_unlimited());
}

const MANY: &str = "a quota cannot have more than 16 per nanosecond";
const LONG: &str =
    "a quota cannot have a token or a burst that takes more than 2^58 ns (nine years) to come back";
const DENSE: &str = "a quota of two per nanosecond or more cannot have a burst of more than 2^56";

/// At most 16 per nanosecond, in a period of at most `u64::MAX` nanoseconds, and a burst that takes
/// at most 2^58 of them to come back; zero is not allowed.
#[test]
fn quotas_on_either_side_of_an_edge_are_made_and_refused() {
    // Three in ten nanoseconds: ten does not divide 2^58, and a part of a token does not count.
    let most = LONGEST * 3 / 10;
    let text = |count, period, burst| format!("{count}/{period}ns burst {burst}");
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
        let quota = Quota::new(count, nanos(period)).burst(burst);
        assert_eq!(parts(quota), (count, u128::from(period), burst));
        assert_eq!(text(count, period, burst).parse(), Ok(quota));
        assert!(!quota.is_unlimited());
    }
    for (count, period, burst, expected) in [
        (16_000_000_001, 1_000_000_000, 1, MANY),
        (17, 1, 1, MANY),
        (u64::MAX, u64::MAX / 17, 1, MANY),
        // No other quota has the numbers of `UNLIMITED`.
        (u64::MAX, 1, u64::MAX, MANY),
        (u64::MAX, u64::MAX / 2 + 1, 2 * LONGEST, LONG),
        (1, LONGEST + 1, 1, LONG),
        (1, LONGEST, 2, LONG),
        (2, 2 * LONGEST + 1, 1, LONG),
        (u64::MAX, u64::MAX, LONGEST + 1, LONG),
        (u64::MAX, u64::MAX, u64::MAX, LONG),
        (3, 10, most + 1, LONG),
        (2_000_000_000, 1_000_000_000, LARGEST_BURST + 1, DENSE),
        (16_000_000_000, 1_000_000_000, LARGEST_BURST + 1, DENSE),
        (0, 1000, 1, "a quota cannot have a count of 0"),
        (1, 0, 1, "a quota cannot have a period of 0ns"),
        (1, 1000, 0, "a quota cannot have a burst of 0"),
    ] {
        let time = nanos(period);
        let expected = format!("{expected}: {count} in {time:?}, burst {burst}");
        let error = Quota::try_new(count, time, burst).unwrap_err();
        assert_eq!(error.to_string(), expected);
        is_refused(&text(count, period, burst), &expected);
    }
    // The longest time in this notation is 2^64 - 1 days.
    let expected = "a quota cannot have a period of more than 2^64 - 1 ns: 1 in";
    for period in [nanos(u64::MAX) + nanos(1), Duration::MAX] {
        let error = Quota::try_new(1, period, 1).unwrap_err();
        let expected = format!("{expected} {period:?}, burst 1");
        assert_eq!(error.to_string(), expected);
    }
    let expected = format!("{expected} 18446744073709551615.999999999s, burst 1");
    is_refused("1/18446744073709551615d", &expected);
}

#[test]
fn an_error_is_plain_data() {
    let error = Quota::try_new(0, nanos(1), 1).unwrap_err();
    let copy = error;
    let boxed: Box<dyn Error + Send + Sync> = Box::new(copy);
    assert_eq!(boxed.to_string(), error.to_string());
    assert_ne!(Err(error), Quota::try_new(1, nanos(1), 0));
    let debug = format!("{error:?}");
    assert!(debug.starts_with("QuotaError"), "{debug}");
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Checks the documented rules, in numbers that do not overflow.
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

/// A period that does not fit is shortened with its count, and rounded up: 3 of 191 then take longer than
/// 2^58 nanoseconds to come back.
#[test]
fn split_returns_the_same_count_over_a_longer_period() {
    for (whole, nodes, share) in [
        ("100/s burst 20", 1, "100/s burst 20"),
        ("100/s burst 20", 4, "100/4s burst 5"),
        ("100/s burst 20", 7, "100/7s burst 2"),
        ("100/s burst 20", 20, "100/20s"),
        ("100/s burst 20", 21, "100/21s"),
        ("1/h", 24, "1/d"),
        ("1/72057594037927936ns", 4, "1/288230376151711744ns"),
        (
            "18446744073709551615/18446744073709551615ns",
            u32::MAX,
            "4294967297/18446744073709551615ns",
        ),
        ("1001/365d", 1000, "585/18430129870129870130ns"),
        (
            "192/9223372036854775808ns burst 6",
            2,
            "191/18350667281658981035ns burst 2",
        ),
    ] {
        let quota: Quota = whole.parse().unwrap();
        assert_eq!(quota.split(nodes).to_string(), share);
    }
    assert!(
        "191/18350667281658981035ns burst 3"
            .parse::<Quota>()
            .is_err()
    );
}

fn in_nanos(quota: Quota) -> u64 {
    u64::try_from(quota.period().as_nanos()).expect("a quota's period fits")
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Compares by cross-multiplication, so that nothing is rounded here.
    #[test]
    fn the_rates_of_the_shares_add_up(quota in quotas(), nodes in nodes()) {
        let long = BigUint::from(in_nanos(quota)) * nodes;
        prop_assume!(BigUint::from(LONGEST) * quota.count() >= long);
        let share = quota.split(nodes);
        let whole = BigUint::from(quota.count()) * in_nanos(share);
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
        let long = u128::from(in_nanos(quota)) * u128::from(nodes);
        prop_assume!(u128::from(LONGEST) * u128::from(quota.count()) >= long);
        let share = quota.split(nodes);
        let sum = u128::from(share.max_burst()) * u128::from(nodes);
        let burst = u128::from(quota.max_burst());
        prop_assert!(sum <= burst.max(nodes.into()));
        // One less is possible if the period did not fit, and an indivisible rest is lost.
        let lost = if long <= u128::from(u64::MAX) { 1 } else { 2 };
        prop_assert!(sum + lost * u128::from(nodes) > burst);
        let made = Quota::try_new(share.count(), share.period(), share.max_burst());
        prop_assert_eq!(made, Ok(share));
    }
}

fn nodes() -> impl Strategy<Value = u32> {
    prop_oneof![1..100_u32, 1..=u32::MAX, Just(u32::MAX), Just(1 << 31)]
}

#[cfg(feature = "serde")]
#[test]
fn quota_in_a_configuration_is_its_text() {
    for (text, quota) in [
        ("100/s burst 20", Quota::per_second(100).burst(20)),
        ("unlimited", Quota::UNLIMITED),
    ] {
        let json = format!("\"{text}\"");
        assert_eq!(serde_json::to_string(&quota).unwrap(), json);
        assert_eq!(serde_json::from_str::<Quota>(&json).unwrap(), quota);
        // From a value, and with an escape in it, serde passes the text in another way.
        assert_eq!(serde_json::from_value::<Quota>(text.into()).unwrap(), quota);
        let json = json.replace('/', "\\u002f");
        assert_eq!(serde_json::from_str::<Quota>(&json).unwrap(), quota);
    }
    for (text, expected) in [
        (
            "[\"100/s\", \"5/week\"]",
            "\"5/week\" is no quota: at byte 2: expected a unit of time (d, h, min, s, ms, us or ns)",
        ),
        ("[100]", "expected a quota such as \"100/s burst 20\""),
    ] {
        let error = serde_json::from_str::<Vec<Quota>>(text).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn spaces_are_free_and_a_comma_may_come_before_the_burst() {
    for (texts, expected) in [
        (
            "100/s| 100 / s|  100/ s\n|100/1s|00100/01 s|100/1000ms|100/s burst 1",
            "100/s",
        ),
        (
            "1000/10s  burst 50 |1000/10s, burst 50|1000/10s,burst 50|1000 / 10 s , burst\t50|1000/10s burst50",
            "1000/10s burst 50",
        ),
        (" unlimited ", "unlimited"),
    ] {
        for text in texts.split('|') {
            let quota = text.parse::<Quota>().map(|quota| quota.to_string());
            assert_eq!(quota.as_deref(), Ok(expected), "{text:?}");
        }
    }
}

#[test]
fn units_have_other_names() {
    let names: [&[&str]; 7] = [
        &["ns"],
        // The micro sign, and the Greek letter.
        &["us", "\u{b5}s", "\u{3bc}s"],
        &["ms"],
        &["s", "sec", "second", "seconds"],
        &["m", "min", "minute", "minutes"],
        &["h", "hour", "hours"],
        &["d", "day", "days"],
    ];
    for (names, unit) in names.into_iter().zip(UNITS) {
        for name in names {
            let expected = Ok(Quota::new(1, nanos(3 * unit)));
            assert_eq!(format!("1/3{name}").parse(), expected, "{name}");
            let expected = Ok(Quota::new(1, nanos(unit)).burst(2));
            assert_eq!(format!("1/{name} burst 2").parse(), expected, "{name}");
        }
    }
}

const COUNT: &str = "a quota such as 100/s";
const SLASH: &str = "a slash after a whole number";
const UNIT: &str = "a unit of time (d, h, min, s, ms, us or ns)";
const BURST: &str = "a number for the burst";
const OR_END: &str = "\"burst\" or the end";
const NUMBER: &str = "a number of at most 18446744073709551615";

#[test]
fn text_that_is_no_quota_is_refused_at_the_byte() {
    for text in [
        "",
        "/s",
        "s",
        "-1/s",
        "+1/s",
        ".5/s",
        "burst 5",
        "\u{663}/s",
        "Unlimited",
        "none",
    ] {
        is_refused(text, &format!("at byte 0: expected {COUNT}"));
    }
    for (text, expected, at) in [
        (" \n", COUNT, 2),
        ("100", SLASH, 3),
        ("100s", SLASH, 3),
        ("100 per second", SLASH, 4),
        ("1.5/s", SLASH, 1),
        ("1_0/s", SLASH, 1),
        ("1 0/s", SLASH, 2),
        ("100/", UNIT, 4),
        ("100/10", UNIT, 6),
        ("100/-1s", UNIT, 4),
        ("100/1.5h", UNIT, 5),
        ("100/s,", "\"burst\"", 6),
        ("100/s, 5", "\"burst\"", 7),
        ("100/s burst", BURST, 11),
        ("100/s burst -1", BURST, 12),
        ("100/s burst = 1", BURST, 12),
        ("100/s 20", OR_END, 6),
        ("100/s; burst 20", OR_END, 5),
        ("100/s Burst 20", OR_END, 6),
        ("100/\u{b5}s!", OR_END, 7),
        ("100/s burst 20/s", "the end", 14),
        ("100/s burst 20 burst 20", "the end", 15),
        ("unlimited burst 5", "the end", 10),
        ("unlimited/s", "the end", 9),
        // A unit is not guessed.
        ("100/S", UNIT, 4),
        ("100/M", UNIT, 4),
        ("100/mo", UNIT, 4),
        ("100/week", UNIT, 4),
        ("100/sburst 5", UNIT, 4),
        ("100/\u{b5}", UNIT, 4),
        ("100/ burst", UNIT, 5),
        ("100/ 10 Sec", UNIT, 8),
        ("18446744073709551616/s", NUMBER, 0),
        (" 99999999999999999999999999999999999999999/s", NUMBER, 1),
        ("1/18446744073709551616ns", NUMBER, 2),
        ("1/s burst 18446744073709551616", NUMBER, 10),
    ] {
        is_refused(text, &format!("at byte {at}: expected {expected}"));
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Formats in the obvious way, by trying the units one after the other.
    #[test]
    fn what_is_written_is_exact_and_is_read(quota in quotas()) {
        let period = quota.period().as_nanos() as u64;
        let unit = UNITS.iter().rposition(|unit| period.is_multiple_of(*unit)).unwrap();
        let times = match period / UNITS[unit] {
            1 => String::new(),
            times => times.to_string(),
        };
        let name = ["ns", "us", "ms", "s", "min", "h", "d"][unit];
        let burst = match quota.max_burst() {
            1 => String::new(),
            burst => format!(" burst {burst}"),
        };
        let expected = format!("{}/{times}{name}{burst}", quota.count());
        prop_assert_eq!(quota.to_string(), expected.as_str());
        prop_assert_eq!(expected.parse(), Ok(quota));
    }

    /// Parsing does not panic, and does not read the same text as two quotas.
    #[test]
    fn any_text_is_read_or_refused(
        text in "([0-9]{0,21}|.) ?[/,µ]? ?[0-9]{0,3} ?(s|min|ns|day|µs|.)(,| )?(burst)? ?[0-9]{0,3}.?",
    ) {
        match text.parse::<Quota>() {
            Ok(quota) => prop_assert_eq!(quota.to_string().parse(), Ok(quota)),
            Err(error) => {
                let error = error.to_string();
                prop_assert!(error.starts_with(char::is_lowercase), "{}", error);
                prop_assert!(!error.ends_with('.'), "{}", error);
            }
        }
    }
}
