//! Tests the calendar, and that the work is linear. The tables of documented responses are in `tests/reader`.

use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use http::{HeaderName, HeaderValue};

use super::*;
use crate::work;

#[test]
fn wait_parse_of_each_day_agrees_with_the_dates_of_http() {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    for day in 0..60_000 {
        let point = UNIX_EPOCH + Duration::from_secs(day * 86_400 + 3_723);
        let text = httpdate::fmt_http_date(point);
        let parts: Vec<_> = text.split([' ', ',']).collect();
        let month = MONTHS.iter().position(|month| *month == parts[3]);
        let month = month.expect("a month") + 1;
        let date = format!("{}-{month:02}-{}T{}+01:00", parts[4], parts[2], parts[5]);
        let hour_before = point - Duration::from_secs(3_600);
        for (text, point) in [(text, point), (date, hour_before)] {
            let now = point.checked_sub(Duration::from_secs(9));
            let wait = Wait::parse(text.as_bytes(), Scale::Unknown, now.expect("a time"));
            let wait = wait.map(|wait| wait.duration);
            // Times before 1970 have passed.
            let expected = point
                .duration_since(UNIX_EPOCH)
                .map_or(Duration::ZERO, |_| Duration::from_secs(9));
            assert_eq!(wait, Some(expected), "{text}");
        }
    }
}

/// Returns the work that a response takes: how often a byte or an element is looked at,
/// and the bytes of all names.
fn work(fields: &[(&str, &str)]) -> usize {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::try_from(*name).expect("a name");
        let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
        headers.append(name, value);
    }
    let mut limits = ServerLimits::default();
    let work = work::count(|| limits = ServerLimits::of(&headers, UNIX_EPOCH));
    // A name that several windows share is stored once.
    let names: HashMap<_, _> = limits
        .windows()
        .map(|one| (one.name.as_ptr(), one.name.len()))
        .collect();
    work + names.values().sum::<usize>()
}

/// Each shape is a response that grows with a number. If a part of the work were quadratic, twice the size would take
/// four times the work.
#[test]
fn of_responses_of_twice_the_size_takes_twice_the_work() {
    type Shape = fn(usize) -> usize;
    let shapes: [(&str, Shape); 9] = [
        ("items", |size| {
            let items = r#""a\\";r=1;t=1,"#.repeat(size);
            let policies = r#""b";q=9,"#.repeat(size);
            work(&[("ratelimit", &items), ("ratelimit-policy", &policies)])
        }),
        ("quotes", |size| {
            work(&[("ratelimit", &"\"\\".repeat(size))])
        }),
        ("parameters", |size| {
            work(&[("ratelimit", &"r=1;".repeat(size))])
        }),
        ("digits", |size| {
            let digits = "9".repeat(size);
            let names = ["x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"];
            work(&names.map(|name| (name, digits.as_str())))
        }),
        ("elements", |size| {
            let elements = "1, ".repeat(size);
            let names = [
                "x-ratelimit-remaining",
                "x-ratelimit-limit",
                "x-ratelimit-reset",
            ];
            work(&names.map(|name| (name, elements.as_str())))
        }),
        ("durations", |size| {
            work(&[("retry-after", &"1m".repeat(size))])
        }),
        ("lines", |size| {
            let names = [
                "x-ratelimit-remaining",
                "x-ratelimit-limit",
                "x-ratelimit-reset",
            ];
            let lines = names
                .into_iter()
                .flat_map(|name| std::iter::repeat_n((name, "7"), size));
            work(&lines.collect::<Vec<_>>())
        }),
        ("a name", |size| {
            let (name, elements) = ("n".repeat(size), "1, ".repeat(size));
            let fields = [
                ("x-ratelimit-name", name.as_str()),
                ("x-ratelimit-remaining", &elements),
            ];
            work(&fields)
        }),
        ("names", |size| {
            let names = (0..size).map(|at| format!("x-ratelimit{}-reset", "-per".repeat(at % 50)));
            let names: Vec<_> = names.collect();
            let lines = names.iter().map(|name| (name.as_str(), "x"));
            work(&lines.collect::<Vec<_>>())
        }),
    ];
    for (name, shape) in shapes {
        let (once, twice) = (shape(1_000), shape(2_000));
        assert!(once >= 1_000, "{name}: {once}");
        assert!(twice <= 2 * once + 500, "{name}: {once}, then {twice}");
    }
}
