//! Tests a table of responses as each provider documents them, and random fields.

use std::time::UNIX_EPOCH;

use http::{HeaderName, HeaderValue};

use super::*;

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

/// Returns a window; the reset is in milliseconds.
fn window(limit: u64, remaining: u64, reset_after: u64) -> Window {
    let limit = Some(limit);
    let reset_after = Some(Duration::from_millis(reset_after));
    Window {
        limit,
        remaining,
        reset_after,
    }
}

fn requests(window: Window) -> ServerLimits {
    let requests = Some(window);
    ServerLimits {
        requests,
        ..ServerLimits::default()
    }
}

fn waits(millis: u64) -> ServerLimits {
    ServerLimits {
        retry_after: Some(Duration::from_millis(millis)),
        ..ServerLimits::default()
    }
}

#[test]
fn of_retry_after_reads_seconds_and_the_three_dates() {
    for (value, millis) in [
        ("30", 30_000),
        ("0", 0),
        ("Wed, 28 Aug 2024 00:01:00 GMT", 60_000),
        ("Wednesday, 28-Aug-24 00:01:00 GMT", 60_000),
        ("Wed Aug 28 00:01:00 2024", 60_000),
        ("Tue, 27 Aug 2024 00:01:00 GMT", 0),
    ] {
        assert_eq!(limits(&[("retry-after", value)]), waits(millis), "{value}");
    }
    for value in ["", "-1", "1.5", "1s", "soon"] {
        let expected = ServerLimits::default();
        assert_eq!(limits(&[("retry-after", value)]), expected, "{value}");
    }
}

#[test]
fn of_draft_11_takes_the_tightest_item_and_the_quota_of_its_policy() {
    let policy = (
        "ratelimit-policy",
        r#""burst";q=100;w=60,"daily";q=1000;w=86400"#,
    );
    let read = limits(&[
        policy,
        ("ratelimit", r#""burst";r=80;t=50, "daily";r=9;t=99"#),
    ]);
    assert_eq!(read, requests(window(1000, 9, 99_000)));
    // The items of several lines form one list.
    let lines = [
        policy,
        ("ratelimit", r#""burst";r=0;t=50"#),
        ("ratelimit", r#""daily";r=0;t=99"#),
    ];
    assert_eq!(limits(&lines), requests(window(1000, 0, 99_000)));
    let other = ("ratelimit-policy", r#""size";q=65535;qu="content-bytes""#);
    let read = limits(&[other, ("ratelimit", r#""size";r=10;t=5"#)]);
    assert_eq!((read.requests, read.used_up()), (None, None));
    let read = limits(&[other, ("ratelimit", r#""size";r=0;t=5"#)]);
    let used_up = Some(Duration::from_secs(5));
    assert_eq!((read.requests, read.used_up()), (None, used_up));
    let named = ("ratelimit-policy", r#""a";q=10;qu="requests";w=1"#);
    let read = limits(&[named, ("ratelimit", r#""a";r=3;t=1"#)]);
    assert_eq!(read, requests(window(10, 3, 1000)));
    let read = limits(&[("ratelimit", r#""a";r=3"#)]);
    let expected = Window {
        limit: None,
        remaining: 3,
        reset_after: None,
    };
    assert_eq!(read, requests(expected));
}

#[test]
fn of_draft_07_and_express_rate_limit_reads_the_three_numbers() {
    let policy = ("ratelimit-policy", "100;w=60");
    let read = limits(&[policy, ("ratelimit", "limit=100, remaining=0, reset=50")]);
    assert_eq!(read, requests(window(100, 0, 50_000)));
    let other = ("ratelimit", r#""a, remaining=0, b";r=5;t=9"#);
    let read = limits(&[other]).requests;
    assert_eq!(read.map(|window| window.remaining), Some(5));
}

#[test]
fn of_several_lines_takes_the_tightest_with_its_own_limit_and_reset() {
    let read = limits(&[
        ("x-ratelimit-limit", "5000"),
        ("x-ratelimit-limit", "60"),
        ("x-ratelimit-remaining", "100"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "9"),
        ("x-ratelimit-reset", "5"),
    ]);
    assert_eq!(read, requests(window(60, 0, 5000)));
}

#[test]
fn of_earlier_drafts_and_gitlab_tells_seconds_from_points_in_time() {
    let with = |limit, reset| {
        limits(&[
            ("ratelimit-limit", limit),
            ("ratelimit-remaining", "7"),
            ("ratelimit-reset", reset),
        ])
    };
    assert_eq!(with("10", "5"), requests(window(10, 7, 5000)));
    assert_eq!(with("10, 10;w=1", "1"), requests(window(10, 7, 1000)));
    assert_eq!(with("600", "1724803260"), requests(window(600, 7, 60_000)));
}

#[test]
fn of_github_and_discord_and_reddit_reads_points_in_time_and_fractions() {
    let github = [
        ("x-ratelimit-limit", "5000"),
        ("x-ratelimit-remaining", "4987"),
        ("x-ratelimit-used", "13"),
        ("x-ratelimit-reset", "1724806800"),
        ("x-ratelimit-resource", "core"),
    ];
    assert_eq!(limits(&github), requests(window(5000, 4987, 3_600_000)));
    let discord = [
        ("x-ratelimit-limit", "10"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1724803264.57"),
        ("x-ratelimit-reset-after", "64.57"),
        ("x-ratelimit-bucket", "abcd1234"),
    ];
    assert_eq!(limits(&discord), requests(window(10, 0, 64_570)));
    assert_eq!(limits(&discord[..3]), requests(window(10, 0, 64_570)));
    let reddit = limits(&[
        ("x-ratelimit-used", "2"),
        ("x-ratelimit-remaining", "598.9"),
        ("x-ratelimit-reset", "385"),
    ]);
    let expected = Window {
        limit: None,
        ..window(0, 598, 385_000)
    };
    assert_eq!(reddit, requests(expected));
}

#[test]
fn of_openai_and_groq_and_azure_reads_requests_and_tokens() {
    let read = |reset_requests, reset_tokens| {
        limits(&[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-requests", reset_requests),
            ("x-ratelimit-reset-tokens", reset_tokens),
        ])
    };
    let expected = |requests, tokens| ServerLimits {
        requests: Some(window(60, 59, requests)),
        tokens: Some(window(150_000, 149_984, tokens)),
        ..ServerLimits::default()
    };
    assert_eq!(read("1s", "6m0s"), expected(1000, 360_000));
    assert_eq!(read("2m59.56s", "7.66s"), expected(179_560, 7660));
    assert_eq!(read("120ms", "1d2h3m4s"), expected(120, 93_784_000));
    let azure = limits(&[
        ("x-ratelimit-remaining-requests", "19"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("retry-after-ms", "1250"),
        ("retry-after", "2"),
    ]);
    let left = |remaining| Window {
        limit: None,
        remaining,
        reset_after: None,
    };
    let expected = ServerLimits {
        requests: Some(left(19)),
        tokens: Some(left(0)),
        ..waits(1250)
    };
    assert_eq!(azure, expected);
}

#[test]
fn of_anthropic_takes_the_tightest_of_the_tokens() {
    let read = limits(&[
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "49"),
        ("anthropic-ratelimit-requests-reset", "2024-08-28T00:00:01Z"),
        ("anthropic-ratelimit-tokens-limit", "100000"),
        ("anthropic-ratelimit-tokens-remaining", "92000"),
        ("anthropic-ratelimit-tokens-reset", "2024-08-28T00:00:04Z"),
        ("anthropic-ratelimit-input-tokens-limit", "80000"),
        ("anthropic-ratelimit-input-tokens-remaining", "75000"),
        (
            "anthropic-ratelimit-input-tokens-reset",
            "2024-08-28T00:00:03Z",
        ),
        ("anthropic-ratelimit-output-tokens-limit", "20000"),
        ("anthropic-ratelimit-output-tokens-remaining", "17000"),
        (
            "anthropic-ratelimit-output-tokens-reset",
            "2024-08-28T00:00:09.5+00:00",
        ),
    ]);
    let expected = ServerLimits {
        requests: Some(window(50, 49, 1000)),
        tokens: Some(window(20_000, 17_000, 9500)),
        ..ServerLimits::default()
    };
    assert_eq!(read, expected);
}

#[test]
fn of_stripe_and_aws_reads_retry_after_alone() {
    let stripe = ("stripe-rate-limited-reason", "global-rate");
    assert_eq!(limits(&[stripe]), ServerLimits::default());
    assert_eq!(limits(&[stripe, ("retry-after", "2")]), waits(2000));
    let aws = ("x-amzn-ratelimit-limit", "0.5");
    assert_eq!(limits(&[aws]), ServerLimits::default());
    assert_eq!(limits(&[aws, ("retry-after", "1")]), waits(1000));
}

#[test]
fn of_several_conventions_takes_the_tightest() {
    let read = limits(&[
        ("ratelimit", r#""a";r=5;t=9"#),
        ("x-ratelimit-remaining", "4"),
        ("x-ratelimit-remaining-requests", "6"),
    ]);
    assert_eq!(read.requests.map(|window| window.remaining), Some(4));
}

#[test]
fn of_a_response_with_a_date_counts_from_it() {
    let fields = [
        ("date", "Wed, 28 Aug 2024 00:00:30 GMT"),
        ("x-ratelimit-remaining", "1"),
        ("x-ratelimit-reset", "1724803260"),
        ("retry-after", "Wed, 28 Aug 2024 00:01:00 GMT"),
    ];
    let read = limits(&fields);
    let reset_after = read.requests.and_then(|window| window.reset_after);
    assert_eq!(reset_after, Some(Duration::from_secs(30)));
    assert_eq!(read.retry_after, Some(Duration::from_secs(30)));
}

#[test]
fn of_resets_reads_every_form_and_drops_what_it_cannot_read() {
    let reset = |value| {
        let fields = [("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", value)];
        limits(&fields)
            .requests
            .and_then(|window| window.reset_after)
    };
    for (value, millis) in [
        ("999999999", Some(999_999_999_000)),
        ("1000000000", Some(0)),
        ("1724803201", Some(1000)),
        ("1724803201500", Some(1500)),
        ("Wed, 28 Aug 2024 00:01:00 GMT", Some(60_000)),
        ("2024-08-28T00:01:00.250Z", Some(60_250)),
        ("1970-01-01T00:00:00Z", Some(0)),
        ("0.0000000001", Some(0)),
        ("99999999999999999999", Some(18_446_742_348_906_351_615)),
        ("2024-08-28T00:01:00+02:00", None),
        ("1.", None),
        (".5", None),
        ("1.5.0", None),
        ("1s2", None),
        ("1w", None),
        ("s", None),
        ("-1", None),
        ("1e3", None),
        ("\u{b2}", None),
        ("", None),
    ] {
        let read = reset(value).map(|reset| reset.as_millis());
        assert_eq!(read, millis, "{value}");
    }
    // The duration is rounded up to a nanosecond.
    assert_eq!(reset("0.0000000001"), Some(Duration::from_nanos(1)));
    let most = Duration::from_secs(u64::MAX);
    assert!(reset("99999999999999999999d") > Some(most));
    let count = |value| {
        let requests = limits(&[("x-ratelimit-remaining", value)]).requests;
        requests.map(|window| window.remaining)
    };
    assert_eq!(count("99999999999999999999"), Some(u64::MAX));
    assert_eq!(count("-3"), Some(0));
    for value in ["", "-", "--1", "+1", ".5", "many", "0x10"] {
        assert_eq!(count(value), None, "{value}");
    }
}

#[rustfmt::skip]
const WORDS: [&str; 30] = [
    "0", "1", "59", "1724803260", "99999999999999999999", ".", "-", ":", "T", "Z", "+00:00",
    "2024-08-28", "00:01:00", "6m", "s", "ms", "d", "Wed, 28 Aug 2024 00:01:00 GMT", "\"", "a",
    "\"a\"", ";r=0", ";t=5", ";q=9", ";qu=", ", ", ";", "\\", "remaining=", "reset=",
];

/// Returns the number of cases that the environment variable `HEADER_CASES` sets, as in `scripts/nightly`.
pub(crate) fn cases() -> u64 {
    let cases = std::env::var("HEADER_CASES");
    cases.map_or(20_000, |cases| cases.parse().expect("a number"))
}

/// Returns random numbers below a bound, from a fixed seed.
pub(crate) fn numbers() -> impl FnMut(usize) -> usize {
    let mut state = 7_u64;
    move |bound| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).expect("31 bits") % bound
    }
}

/// Returns a value of fewer than `parts` parts: words that such values contain, or any byte.
pub(crate) fn value(
    next: &mut impl FnMut(usize) -> usize,
    words: &[&str],
    parts: usize,
) -> Vec<u8> {
    let mut value = Vec::new();
    for _ in 0..next(parts) {
        if next(8) > 0 {
            value.extend(words[next(words.len())].bytes());
        } else {
            // Control characters are replaced, because no value contains them.
            let byte = u8::try_from(next(256)).expect("a byte");
            value.push(if byte < b' ' || byte == 0x7f {
                b'7'
            } else {
                byte
            });
        }
    }
    value
}

#[test]
fn of_random_fields_does_not_panic() {
    const NAMES: [&str; 14] = [
        "retry-after",
        "retry-after-ms",
        "date",
        "ratelimit",
        "ratelimit-policy",
        "ratelimit-remaining",
        "ratelimit-reset",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "x-ratelimit-reset-after",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ];
    let (cases, mut next) = (cases(), numbers());
    let (mut headers, mut read) = (HeaderMap::new(), 0);
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    for _ in 0..cases {
        headers.clear();
        for _ in 0..6 {
            let name = HeaderName::from_static(NAMES[next(NAMES.len())]);
            let value = HeaderValue::from_bytes(&value(&mut next, &WORDS, 10)).expect("a value");
            headers.append(name, value);
        }
        let limits = ServerLimits::of(&headers, now);
        read += u64::from(limits.requests.is_some());
        read += u64::from(
            limits
                .tokens
                .is_some_and(|tokens| tokens.reset_after.is_some()),
        );
    }
    // The test is meaningful only if enough cases are read.
    assert!(read > cases / 100, "only {read}");
}

/// If the time were quadratic in the length, this test would take minutes.
#[test]
fn of_huge_fields_takes_linear_time() {
    let item = r#""a\\";r=1;t=1,"#;
    let long = item.repeat(100_000);
    let digits = "9".repeat(1_000_000);
    let quotes = "\"\\".repeat(500_000);
    let mut fields = vec![
        ("ratelimit", long.as_str()),
        ("ratelimit-policy", long.as_str()),
        ("ratelimit", quotes.as_str()),
        ("x-ratelimit-remaining", digits.as_str()),
        ("x-ratelimit-reset", digits.as_str()),
        ("retry-after", digits.as_str()),
    ];
    for (name, line) in [
        ("ratelimit", r#""b";r=0;t=3"#),
        ("ratelimit-policy", r#""b";q=3;qu="a""#),
        ("x-ratelimit-remaining", "7"),
        ("x-ratelimit-reset", "7"),
    ] {
        fields.extend(std::iter::repeat_n((name, line), 5_000));
    }
    let read = limits(&fields);
    assert_eq!(read.requests.map(|window| window.remaining), Some(1));
    assert_eq!(read.retry_after, Some(Duration::from_secs(u64::MAX)));
}
