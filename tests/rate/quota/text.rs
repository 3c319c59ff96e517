//! How a quota is written, and what is read as one.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::Quota;

use super::edges::{UNITS, quotas};
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

#[test]
fn the_period_is_written_in_the_largest_unit_that_divides_it() {
    let written = |count, period| Quota::new(count, period).to_string();
    assert_eq!(Quota::per_second(100).to_string(), "100/s");
    assert_eq!(Quota::per_minute(5).to_string(), "5/min");
    assert_eq!(Quota::per_hour(1).to_string(), "1/h");
    assert_eq!(Quota::per_day(2).to_string(), "2/d");
    assert_eq!(written(60, Duration::from_secs(60)), "60/min");
    assert_eq!(written(1, Duration::from_secs(90 * 60)), "1/90min");
    assert_eq!(written(1, Duration::from_secs(91)), "1/91s");
    assert_eq!(written(1, Duration::from_secs(7 * 24 * 60 * 60)), "1/7d");
    assert_eq!(written(7, Duration::from_millis(1500)), "7/1500ms");
    assert_eq!(written(1, Duration::from_millis(1)), "1/ms");
    assert_eq!(written(1, Duration::from_micros(1)), "1/us");
    assert_eq!(written(3, nanos(1001)), "3/1001ns");
    assert_eq!(written(3, nanos(10)), "3/10ns");
    assert_eq!(written(1, nanos(1)), "1/ns");
}

#[test]
fn a_burst_of_one_is_not_written() {
    let quota = Quota::new(1000, Duration::from_secs(10));
    assert_eq!(quota.burst(50).to_string(), "1000/10s burst 50");
    assert_eq!(quota.burst(1).to_string(), "1000/10s");
}

#[test]
fn the_longest_text_is_written_whole() {
    let quota = Quota::new(u64::MAX, nanos(u64::MAX)).burst(1 << 58);
    assert_eq!(
        quota.to_string(),
        "18446744073709551615/18446744073709551615ns burst 288230376151711744"
    );
}

#[test]
fn a_quota_fits_into_a_table() {
    let quota = Quota::per_second(100);
    assert_eq!(
        format!("[{quota:>8}] [{quota:<8}]"),
        "[   100/s] [100/s   ]"
    );
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

#[test]
fn a_part_that_is_missing_is_named() {
    is_refused("", "an empty text is no quota, expected one such as 100/s");
    is_refused(
        " \n",
        "an empty text is no quota, expected one such as 100/s",
    );
    for text in ["/s", "s", "-1/s", "+1/s", ".5/s", "burst 5", "\u{663}/s"] {
        is_refused(text, "expected a count at byte 0");
    }
    for (text, at) in [
        ("100", 3),
        ("100s", 3),
        ("100 per second", 4),
        ("1.5/s", 1),
        ("1_0/s", 1),
        ("1 0/s", 2),
    ] {
        is_refused(
            text,
            &format!("expected a slash after a whole number at byte {at}"),
        );
    }
    let unit = "expected a unit of time (d, h, min, s, ms, us or ns) at byte";
    is_refused("100/", &format!("{unit} 4"));
    is_refused("100/10", &format!("{unit} 6"));
    is_refused("100/-1s", &format!("{unit} 4"));
    is_refused("100/1.5h", &format!("{unit} 5"));
    is_refused("100/ burst", &unknown_unit(5));
    is_refused("100/s,", "expected \"burst\" at byte 6");
    is_refused("100/s, 5", "expected \"burst\" at byte 7");
    is_refused("100/s burst", "expected a number for the burst at byte 11");
    is_refused(
        "100/s burst -1",
        "expected a number for the burst at byte 12",
    );
    is_refused(
        "100/s burst = 1",
        "expected a number for the burst at byte 12",
    );
}

fn unknown_unit(at: usize) -> String {
    format!("unknown unit of time at byte {at}, expected d, h, min, s, ms, us or ns")
}

#[test]
fn a_unit_is_not_guessed() {
    for text in [
        "100/S",
        "100/M",
        "100/mo",
        "100/week",
        "100/sburst 5",
        "100/\u{b5}",
    ] {
        is_refused(text, &unknown_unit(4));
    }
    is_refused("100/ 10 Sec", &unknown_unit(8));
}

#[test]
fn text_after_the_end_is_refused() {
    is_refused("100/s 20", "expected \"burst\" or the end at byte 6");
    is_refused("100/s; burst 20", "expected \"burst\" or the end at byte 5");
    is_refused("100/s Burst 20", "expected \"burst\" or the end at byte 6");
    is_refused("100/\u{b5}s!", "expected \"burst\" or the end at byte 7");
    is_refused("100/s burst 20/s", "expected the end at byte 14");
    is_refused("100/s burst 20 burst 20", "expected the end at byte 15");
}

#[test]
fn a_number_that_does_not_fit_is_refused() {
    let above = |at| format!("the number at byte {at} is above 18446744073709551615");
    is_refused("18446744073709551616/s", &above(0));
    is_refused(" 99999999999999999999999999999999999999999/s", &above(1));
    is_refused("1/18446744073709551616ns", &above(2));
    is_refused("1/s burst 18446744073709551616", &above(10));
}

#[test]
fn what_is_read_is_checked_as_well() {
    is_refused("0/s", "a quota cannot have a count of 0");
    is_refused("1/0s", "a quota cannot have a period of 0ns");
    is_refused("1/s burst 0", "a quota cannot have a burst of 0");
    is_refused(
        "2/ns",
        "a quota cannot have 2 in 1ns, but at most one per nanosecond",
    );
    // The longest time that can be written: 2^64 - 1 days.
    is_refused(
        "1/18446744073709551615d",
        "a quota cannot have a period of 1593798687968505259536000000000000ns, \
         but at most 18446744073709551615ns",
    );
    is_refused(
        "1/3650d",
        "a quota cannot have a burst of 1 at 1 in 315360000000000000ns, \
         which takes more than 2^58ns to come back",
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
