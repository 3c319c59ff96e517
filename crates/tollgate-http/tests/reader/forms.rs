//! Tests the forms of values, and how the fields of a window are joined.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tollgate_http::asked_wait;
use tollgate_http::server_limits::{ServerLimits, Unit};

use super::read;
use super::table::in_seconds;

/// 2024-08-28T00:00:00Z.
const NOW: u64 = 1_724_803_200;

fn limits(fields: &[(&str, &str)]) -> ServerLimits {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::try_from(*name).expect("a name");
        let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
        headers.append(name, value);
    }
    ServerLimits::of(&headers, UNIX_EPOCH + Duration::from_secs(NOW))
}

#[test]
fn retry_after_in_each_form_is_read_or_ignored() {
    for (value, expected) in [
        ("0", Some("0")),
        ("120", Some("120")),
        (" 007 ", Some("7")),
        ("1.5", Some("1.5")),
        ("2.0", Some("2")),
        ("0.0000000001", Some("0.000000001")),
        ("2678400", Some("2678400")),
        ("2678401", None),
        ("99999999999999999999999999", None),
        ("30s", Some("30")),
        ("120ms", Some("0.12")),
        ("14432 ms", Some("14.432")),
        ("1h2m3s", Some("3723")),
        ("2 minutes", Some("120")),
        ("31d", Some("2678400")),
        ("32d", None),
        ("99999999999999999999d", None),
        ("1724803201", Some("1")),
        ("1724803201.25", Some("1.25")),
        ("1724803201500", Some("1.5")),
        ("1724803201500000", None),
        ("1000000000", Some("0")),
        ("999999999", None),
        ("Wed, 28 Aug 2024 00:01:00 GMT", Some("60")),
        ("Wednesday, 28-Aug-24 00:01:00 GMT", Some("60")),
        ("Wed Aug 28 00:01:00 2024", Some("60")),
        ("Tue, 27 Aug 2024 00:01:00 GMT", Some("0")),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None),
        ("2024-08-28T00:01:00Z", Some("60")),
        ("2024-08-28t00:01:00z", Some("60")),
        ("2024-08-28 00:01:00Z", Some("60")),
        ("2024-08-28T00:01Z", Some("60")),
        ("2024-08-28T00:01:00.250Z", Some("60.25")),
        ("2024-08-28T02:01:00+02:00", Some("60")),
        ("2024-08-28T02:01:00+0200", Some("60")),
        ("2024-08-28T02:01:00+02", Some("60")),
        ("2024-08-27T18:31:00-05:30", Some("60")),
        ("1970-01-01T00:00:00+01:00", Some("0")),
        ("2024-08-28T00:01:00", None),
        ("2024-08-28", None),
        ("2024-02-30T00:00:00Z", None),
        ("2024-13-01T00:00:00Z", None),
        ("2024-00-01T00:00:00Z", None),
        ("2024-08-28T24:00:00Z", None),
        ("2024-08-28T00:60:00Z", None),
        ("2024-08-28T00:01:61Z", None),
        ("2024-08-28T00:01:00Z12:00", None),
        ("2024-08-28T00:01:00+24:00", None),
        ("2024-08-28T00:01:00+02:60", None),
        ("2024-08-28T00:01:00+02:0", None),
        ("Wed, 28 Aug 2024 00:01:00", None),
        ("Mon, 28 Aug 2024 00:01:00 GMT", None),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1.", None),
        (".5", None),
        ("1.5.0", None),
        ("1s2", None),
        ("1w", None),
        ("s", None),
        ("1e3", None),
        ("1, 2", None),
        ("soon", None),
        ("\u{b2}", None),
    ] {
        let wait = limits(&[("retry-after", value)]).retry_after();
        assert_eq!(wait.map(in_seconds).as_deref(), expected, "{value:?}");
    }
}

#[test]
fn retry_after_of_several_fields_is_the_exact_one_or_the_longest() {
    let wait = |fields| limits(fields).retry_after().map(in_seconds);
    let longest = [("retry-after", "3"), ("x-ratelimit-after", "5")];
    assert_eq!(wait(&longest).as_deref(), Some("5"));
    let exact = [("retry-after-ms", "1250"), ("retry-after", "2")];
    assert_eq!(wait(&exact).as_deref(), Some("1.25"));
    let unreadable = [("retry-after-ms", "soon"), ("retry-after", "2")];
    assert_eq!(wait(&unreadable).as_deref(), Some("2"));
}

#[test]
fn remaining_in_each_form_is_read_or_ignored() {
    for (value, expected) in [
        ("59", Some(59)),
        (" 59 ", Some(59)),
        ("598.9", Some(598)),
        ("-3", Some(0)),
        ("99999999999999999999", Some(u64::MAX)),
        ("76;w=21600", Some(76)),
        ("", None),
        ("-", None),
        ("--1", None),
        ("+1", None),
        (".5", None),
        ("1.", None),
        ("1h", None),
        ("many", None),
        ("0x10", None),
        ("192.0.2.1", None),
    ] {
        let limits = limits(&[("x-ratelimit-remaining", value)]);
        let requests = limits.tightest(Unit::Requests);
        assert_eq!(
            requests.map(|window| window.remaining),
            expected,
            "{value:?}"
        );
    }
}

#[test]
fn reset_in_bare_seconds_above_a_day_needs_a_window_that_is_as_long() {
    let read = |name: &str, value| {
        let remaining = name.replace("reset", "remaining");
        let limits = limits(&[(&remaining, "1"), (name, value)]);
        let window = limits.windows().next().expect("a window");
        window.reset_after.map(in_seconds)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(read("x-ratelimit-reset", "86400"), some("86400"));
    assert_eq!(read("x-ratelimit-reset", "86401"), None);
    assert_eq!(read("x-ratelimit-reset-minute", "86401"), None);
    assert_eq!(read("x-ratelimit-reset-week", "604800"), some("604800"));
    assert_eq!(read("x-ratelimit-reset-week", "604801"), None);
    assert_eq!(read("x-ratelimit-reset-month", "2678400"), some("2678400"));
    assert_eq!(read("x-ratelimit-reset-month", "2678401"), None);
    // The unit is known.
    assert_eq!(read("x-ratelimit-reset", "86401s"), some("86401"));
    assert_eq!(read("x-ratelimit-7d-reset", "90000"), some("90000"));
    assert_eq!(read("x-ratelimit-reset-ms", "90000"), some("90"));
    assert_eq!(read("x-ratelimit-reset-ms", "1724803201500"), some("1.5"));
    assert_eq!(read("x-ratelimit-reset-timestamp", "30"), None);
    let fields = [
        ("x-ratelimit-remaining", "1"),
        ("x-ratelimit-reset-after", "90000"),
    ];
    assert_eq!(read_first(&fields), some("90000"));
}

fn read_first(fields: &[(&str, &str)]) -> Option<String> {
    let limits = limits(fields);
    let reset_after = limits.windows().next()?.reset_after;
    reset_after.map(in_seconds)
}

#[test]
fn of_a_response_with_a_date_counts_from_it() {
    let read = limits(&[
        ("date", "Wed, 28 Aug 2024 00:00:30 GMT"),
        ("x-ratelimit-remaining", "1"),
        ("x-ratelimit-reset", "1724803260"),
        ("retry-after", "Wed, 28 Aug 2024 00:01:00 GMT"),
    ]);
    assert_eq!(super::read(&read), ["- | requests | - | 1 | 30", "wait 30"]);
    let unreadable = limits(&[
        ("date", "yesterday"),
        ("retry-after", "Wed, 28 Aug 2024 00:01:00 GMT"),
    ]);
    assert_eq!(super::read(&unreadable), ["wait 60"]);
}

#[test]
fn of_several_lines_joins_those_at_one_position() {
    let lines = [
        ("x-ratelimit-limit", "5000"),
        ("x-ratelimit-limit", "60"),
        ("x-ratelimit-remaining", "100"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "9"),
        ("x-ratelimit-reset", "5"),
    ];
    let expected = ["- | requests | 5000 | 100 | 9", "- | requests | 60 | 0 | 5"];
    assert_eq!(read(&limits(&lines)), expected);
    // Which window the only reset belongs to is unknown.
    let expected = ["- | requests | 5000 | 100 | -", "- | requests | 60 | 0 | -"];
    assert_eq!(read(&limits(&lines[..5])), expected);
}

#[test]
fn of_the_items_of_several_lines_reads_one_list() {
    let policy = r#""burst";q=100;w=60,"daily";q=1000;w=86400"#;
    let read = limits(&[
        ("ratelimit-policy", policy),
        ("ratelimit", r#""burst";r=0;t=50"#),
        ("ratelimit", r#""daily";r=9;t=99"#),
    ]);
    let expected = [
        "burst | requests | 100 | 0 | 50",
        "daily | requests | 1000 | 9 | 99",
    ];
    assert_eq!(super::read(&read), expected);
}

#[test]
fn of_items_in_each_form_is_read_or_ignored() {
    for (value, expected) in [
        (r#""a";r=0;t=30"#, &["a | requests | - | 0 | 30"][..]),
        (r#""a"; t=30;  r=0"#, &["a | requests | - | 0 | 30"]),
        (
            r#""a";r=0;t=30;pk=:cGtleQ==:"#,
            &["a | requests | - | 0 | 30"],
        ),
        (r#"a;r=0"#, &["a | requests | - | 0 | -"]),
        (r#""a";r=0;t=60, junk"#, &["a | requests | - | 0 | 60"]),
        (r#""a";r=0, r=5;t=1"#, &["a | requests | - | 0 | -"]),
        (
            r#""a, \";r=1";r=0;t=5"#,
            &[r#"a, \";r=1 | requests | - | 0 | 5"#],
        ),
        (r#""a";r=1;r=0;t=8;t=9"#, &["a | requests | - | 0 | 9"]),
        (r#""a";r=0;t=2678400"#, &["a | requests | - | 0 | 2678400"]),
        (r#""a";r=0;t=2678401"#, &["a | requests | - | 0 | -"]),
        (r#""r=0;t=30";r=1"#, &["r=0;t=30 | requests | - | 1 | -"]),
        (
            "limit=100, remaining=0, reset=50",
            &["- | requests | 100 | 0 | 50"],
        ),
        ("reset=50,remaining=0", &["- | requests | - | 0 | 50"]),
        (r#""r=0;t=30""#, &[]),
        (r#""a";t=30"#, &[]),
        (r#""a";r=-0"#, &[]),
        (r#""a";r=0.0"#, &[]),
        (r#""a";R=0"#, &[]),
        ("", &[]),
    ] {
        assert_eq!(read(&limits(&[("ratelimit", value)])), expected, "{value}");
    }
}

#[test]
fn of_two_policies_with_one_name_takes_no_quota() {
    let read = limits(&[
        (
            "ratelimit-policy",
            r#""a";q=100;w=60, "a";q=1000;w=3600, "b";q=5"#,
        ),
        ("ratelimit", r#""a";r=9, "b";r=4"#),
    ]);
    assert_eq!(
        super::read(&read),
        ["a | requests | - | 9 | -", "b | requests | 5 | 4 | -"]
    );
}

#[test]
fn of_unknown_words_counts_another_unit() {
    for (name, unit) in [
        ("x-ratelimit-remaining", Unit::Requests),
        ("acme-ratelimit-remaining", Unit::Requests),
        ("ratelimit-remaining-day", Unit::Requests),
        ("remaining-rate-limit-requests-per-hour", Unit::Requests),
        ("x_ratelimit_remaining_calls", Unit::Requests),
        ("x-ratelimit-remaining-searches", Unit::Other),
        ("x-ratelimit-images-remaining", Unit::Other),
        ("x-ratelimit-remaining-output-tokens", Unit::OutputTokens),
        ("x-ratelimit-tokens-prompt-remaining", Unit::InputTokens),
        ("x-ratelimit-remaining-bytes", Unit::Bytes),
    ] {
        let limits = limits(&[(name, "5")]);
        let units: Vec<_> = limits.windows().map(|window| window.unit).collect();
        assert_eq!(units, [unit], "{name}");
    }
    for name in ["x-remaining", "x-count", "x-limit", "x-limits-remaining-"] {
        assert_eq!(read(&limits(&[(name, "5")])), [""; 0], "{name}");
    }
}

#[test]
fn asked_wait_of_a_lone_reset_counts_if_it_is_the_only_one_and_the_status_is_a_refusal() {
    let wait = |status, fields: &[(&'static str, &'static str)]| {
        let fields = fields.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        let headers = HeaderMap::from_iter(fields);
        let status = StatusCode::from_u16(status).expect("a status");
        asked_wait(status, &headers, || UNIX_EPOCH).map(in_seconds)
    };
    let lone = [("x-ratelimit-reset", "7")];
    assert_eq!(wait(429, &lone).as_deref(), Some("7"));
    // GitHub sends the fields of its limits also if a right is missing.
    assert_eq!(wait(403, &lone), None);
    let remaining = [("x-ratelimit-reset", "7"), ("x-ratelimit-remaining", "1")];
    assert_eq!(wait(429, &remaining), None);
    let two = [("x-ratelimit-reset-5h", "7"), ("x-ratelimit-reset-7d", "9")];
    assert_eq!(wait(429, &two), None);
    let same = [("x-ratelimit-reset-5h", "7"), ("x-ratelimit-reset-7d", "7")];
    assert_eq!(wait(429, &same).as_deref(), Some("7"));
    assert_eq!(wait(429, &[("x-session-reset", "7")]), None);
}

#[test]
fn of_a_count_beside_a_maximum_reads_nothing_if_no_name_says_rate_limit() {
    let attempts = [("x-retry-count", "1"), ("x-retry-max", "3")];
    assert_eq!(read(&limits(&attempts)), [""; 0]);
    let limit = [("x-ratelimit-count", "1"), ("x-ratelimit-max", "3")];
    assert_eq!(read(&limits(&limit)), ["- | requests | 3 | 2 | -"]);
}

#[test]
fn tightest_is_the_least_remaining_and_then_the_latest_reset() {
    let limits = limits(&[
        (
            "ratelimit",
            r#""a";r=5;t=9, "b";r=4;t=9, "c";r=4;t=10, "d";r=4"#,
        ),
        ("x-ratelimit-remaining-tokens", "1"),
    ]);
    let name = |unit| limits.tightest(unit).map(|window| &*window.name);
    assert_eq!(name(Unit::Requests), Some("c"));
    assert_eq!(name(Unit::Tokens), Some(""));
    assert_eq!(name(Unit::InputTokens), None);
}
