//! How a quota is written, and what is read as one.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::Quota;

use crate::quota::{UNITS, quotas};
use crate::support::cases::cases;

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

#[track_caller]
fn is_read_as(text: &str, expected: &str) {
    let quota = text.parse::<Quota>().map(|quota| quota.to_string());
    assert_eq!(quota.as_deref(), Ok(expected), "{text:?}");
}

#[track_caller]
fn is_refused(text: &str, expected: &str) {
    let error = text.parse::<Quota>().expect_err(text);
    assert_eq!(error.to_string(), expected, "{text:?}");
}

/// The period in the largest unit that divides it, and a burst but for one of 1.
#[test]
fn quota_is_written_in_the_largest_unit() {
    let longest = "18446744073709551615/18446744073709551615ns burst 288230376151711744";
    for (quota, text) in [
        (Quota::per_second(100), "100/s"),
        (Quota::per_minute(5), "5/min"),
        (Quota::per_hour(1), "1/h"),
        (Quota::per_day(2), "2/d"),
        (Quota::new(60, Duration::from_secs(60)), "60/min"),
        (Quota::new(1, Duration::from_secs(90 * 60)), "1/90min"),
        (Quota::new(1, Duration::from_secs(91)), "1/91s"),
        (Quota::new(1, Duration::from_secs(7 * 24 * 60 * 60)), "1/7d"),
        (Quota::new(7, Duration::from_millis(1500)), "7/1500ms"),
        (Quota::new(1, Duration::from_millis(1)), "1/ms"),
        (Quota::new(1, Duration::from_micros(1)), "1/us"),
        (Quota::new(3, nanos(1001)), "3/1001ns"),
        (Quota::new(1, nanos(1)), "1/ns"),
        (Quota::new(16, nanos(1)).burst(100), "16/ns burst 100"),
        (Quota::new(10, Duration::from_secs(10)).burst(1), "10/10s"),
        (
            Quota::new(10, Duration::from_secs(10)).burst(5),
            "10/10s burst 5",
        ),
        (
            Quota::new(u64::MAX, nanos(u64::MAX)).burst(1 << 58),
            longest,
        ),
    ] {
        assert_eq!(quota.to_string(), text);
    }
    let quota = Quota::per_second(100);
    let table = format!("[{quota:>8}] [{quota:<8}] [{:>10}]", Quota::UNLIMITED);
    assert_eq!(table, "[   100/s] [100/s   ] [ unlimited]");
}

#[test]
fn spaces_are_free_and_a_comma_may_come_before_the_burst() {
    for text in [
        "100/s",
        "100 / s",
        "  100/ s\n",
        "100/1s",
        "00100/01 s",
        "100/1000ms",
    ] {
        is_read_as(text, "100/s");
    }
    for text in [
        "1000/10s burst 50",
        "1000/10s  burst 50 ",
        "1000/10s, burst 50",
        "1000/10s,burst 50",
        "1000 / 10 s , burst\t50",
        "1000/10s burst50",
    ] {
        is_read_as(text, "1000/10s burst 50");
    }
    is_read_as("100/s burst 1", "100/s");
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
    ] {
        is_refused(text, &format!("at byte {at}: expected {expected}"));
    }
    // A unit is not guessed.
    for (text, at) in [
        ("100/S", 4),
        ("100/M", 4),
        ("100/mo", 4),
        ("100/week", 4),
        ("100/sburst 5", 4),
        ("100/\u{b5}", 4),
        ("100/ burst", 5),
        ("100/ 10 Sec", 8),
    ] {
        is_refused(text, &format!("at byte {at}: expected {UNIT}"));
    }
    for (text, at) in [
        ("18446744073709551616/s", 0),
        (" 99999999999999999999999999999999999999999/s", 1),
        ("1/18446744073709551616ns", 2),
        ("1/s burst 18446744073709551616", 10),
    ] {
        let most = "expected a number of at most 18446744073709551615";
        is_refused(text, &format!("at byte {at}: {most}"));
    }
}

/// The longest time that can be written is 2^64 - 1 days.
#[test]
fn text_of_a_quota_that_there_cannot_be_is_refused() {
    for (text, expected) in [
        ("0/s", "a count of 0: 0 in 1s, burst 1"),
        ("1/0s", "a period of 0ns: 1 in 0ns, burst 1"),
        ("1/s burst 0", "a burst of 0: 1 in 1s, burst 0"),
        (
            "1/18446744073709551615d",
            "a period of more than 2^64 - 1 ns: 1 in 18446744073709551615.999999999s, burst 1",
        ),
        (
            "1/3650d",
            "a token or a burst that takes more than 2^58 ns (nine years) to come back: 1 in 315360000s, burst 1",
        ),
        ("17/ns", "more than 16 per nanosecond: 17 in 1ns, burst 1"),
    ] {
        is_refused(text, &format!("a quota cannot have {expected}"));
    }
}

#[test]
fn parse_of_unlimited_accepts_nothing_beside_it() {
    for text in ["unlimited", " unlimited "] {
        assert_eq!(text.parse(), Ok(Quota::UNLIMITED));
    }
    is_refused("unlimited burst 5", "at byte 10: expected the end");
    is_refused("unlimited/s", "at byte 9: expected the end");
    for text in ["Unlimited", "unlimite", "none"] {
        is_refused(text, "at byte 0: expected a quota such as 100/s");
    }
    // Its numbers are those of no other.
    is_refused(
        "18446744073709551615/ns burst 18446744073709551615",
        "a quota cannot have more than 16 per nanosecond: 18446744073709551615 in 1ns, burst 18446744073709551615",
    );
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn what_is_written_is_read(quota in quotas()) {
        prop_assert_eq!(quota.to_string().parse(), Ok(quota));
    }

    /// Written in the obvious way, by trying the units one after the other.
    #[test]
    fn what_is_written_is_exact(quota in quotas()) {
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
        prop_assert_eq!(quota.to_string(), expected);
    }

    /// Neither panics nor reads the same text as two things.
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
