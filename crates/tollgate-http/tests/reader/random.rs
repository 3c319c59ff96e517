//! Reads random responses, whose names and values are made of words that servers use, and of any other byte.

use std::cell::Cell;
use std::env;
use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use tollgate_http::server_limits::ServerLimits;

/// Names are joined with `-`.
const NAME_WORDS: [&str; 34] = [
    "x",
    "rate",
    "limit",
    "ratelimit",
    "remaining",
    "reset",
    "after",
    "retry",
    "used",
    "policy",
    "status",
    "name",
    "requests",
    "tokens",
    "input",
    "output",
    "bytes",
    "minute",
    "day",
    "5h",
    "ms",
    "seconds",
    "user",
    "api",
    "key",
    "userlimit",
    "limitlimit",
    "next",
    "per",
    "acme",
    "date",
    "max",
    "month",
    "interval",
];

#[rustfmt::skip]
const VALUE_WORDS: [&str; 46] = [
    "0", "1", "59", "1724803260", "99999999999999999999", "86401", ".", "-", "+", ":", "/", "T", "Z", "+00:00", "-05",
    "2024-08-28", "00:01:00", "6m", "s", "ms", "d", " ", "Wed, 28 Aug 2024 00:01:00 GMT", "Wed Aug 28 00:01:00 2024",
    "\"", "a", "\"a\"", ";r=0", ";t=5", ";q=9", ";w=60", ";qu=", "\"requests\"", ", ", ",", ";", "\\", "remaining=",
    "reset=", "limit=", "rejected", "allowed", "1;w=1", "32/40", "100:60", "é",
];

fn name() -> impl Strategy<Value = HeaderName> {
    let known = select(vec![
        "date",
        "retry-after",
        "retry-after-ms",
        "ratelimit",
        "ratelimit-policy",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    ]);
    let made =
        prop::collection::vec(select(&NAME_WORDS[..]), 1..7).prop_map(|words| words.join("-"));
    let name = prop_oneof![1 => known.prop_map(str::to_owned), 2 => made];
    name.prop_map(|name| HeaderName::try_from(name).expect("a name"))
}

fn value() -> impl Strategy<Value = HeaderValue> {
    let word = select(&VALUE_WORDS[..]).prop_map(|word| word.as_bytes().to_vec());
    // No value contains a control character.
    let byte = any::<u8>().prop_map(|byte| {
        vec![if byte < b' ' || byte == 0x7f {
            b'7'
        } else {
            byte
        }]
    });
    let part = prop_oneof![7 => word.clone(), 1 => byte];
    let parts = prop::collection::vec(part, 0..10).prop_map(|parts| parts.concat());
    // Without whole words, few responses would be read.
    let value = prop_oneof![1 => word, 2 => parts];
    value.prop_map(|value| HeaderValue::from_bytes(&value).expect("a value"))
}

/// The environment variable `HEADER_CASES` sets the number of responses, as in `scripts/nightly`.
#[test]
fn of_random_responses_keeps_its_bounds() {
    const LONGEST: Duration = Duration::from_secs(31 * 86_400);
    let cases = env::var("HEADER_CASES").map_or(4_000, |cases| cases.parse().expect("a number"));
    let mut runner = TestRunner::new(Config::with_cases(cases));
    let [read, waits] = [(); 2].map(|()| Cell::new(0_u32));
    let responses = prop::collection::vec((name(), value()), 0..8);
    let now = UNIX_EPOCH + Duration::from_secs(1_724_803_200);
    let result = runner.run(&responses, |fields| {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value);
        }
        let limits = ServerLimits::of(&headers, now);
        let resets = limits.windows().filter_map(|window| window.reset_after);
        for wait in resets.chain(limits.retry_after()) {
            prop_assert!(wait <= LONGEST, "{wait:?}");
        }
        prop_assert_eq!(&ServerLimits::of(&headers, now), &limits);
        read.set(read.get() + u32::from(limits.windows().next().is_some()));
        waits.set(waits.get() + u32::from(limits.retry_after().is_some()));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    // The test is meaningful only if enough responses are read.
    let least = read.get().min(waits.get());
    assert!(least > cases / 400, "only {least}");
}
