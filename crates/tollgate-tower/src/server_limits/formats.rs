//! Numbers, durations and points in time, as servers write them. Times are rounded up.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A number of seconds from here on is a point in time, since 1970. It is 31 years as a duration.
const POINT_IN_TIME: u64 = 1_000_000_000;

/// A point in time from here on counts milliseconds. It is the year 5138 in seconds.
const IN_MILLISECONDS: u64 = 100_000_000_000;

/// Reads digits, and no sign. A number that is too large saturates.
pub(super) fn integer(text: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let mut digits = text.iter().map(digit);
    let first = digits.next()??;
    digits.try_fold(first, |number, digit| {
        Some(number.saturating_mul(10).saturating_add(digit?))
    })
}

/// Reads a count, without what follows: the fraction of Reddit, or the windows that earlier drafts list
/// after the count.
pub(super) fn count(text: &[u8]) -> Option<u64> {
    let end = text.iter().position(|byte| b".,; ".contains(byte));
    integer(&text[..end.unwrap_or(text.len())])
}

/// Reads a count of what remains, which is nothing if the count is below 0.
pub(super) fn remaining(text: &[u8]) -> Option<u64> {
    match text.strip_prefix(b"-") {
        Some(overdrawn) => count(overdrawn).map(|_| 0),
        None => count(text),
    }
}

/// Reads seconds with or without a fraction.
pub(super) fn seconds(text: &[u8]) -> Option<Duration> {
    let Some(point) = text.iter().position(|byte| *byte == b'.') else {
        return integer(text).map(Duration::from_secs);
    };
    let whole = Duration::from_secs(integer(&text[..point])?);
    let fraction = &text[point + 1..];
    integer(fraction)?;
    let digits = fraction.iter().chain([b'0'; 9].iter()).take(9);
    let nanos = digits.fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0'));
    let rest = fraction.iter().skip(9).any(|digit| *digit != b'0');
    let fraction = Duration::from_nanos(nanos + u64::from(rest));
    Some(whole.saturating_add(fraction))
}

/// Reads numbers with units, such as `6m0s` and `120ms`.
fn with_units(mut text: &[u8]) -> Option<Duration> {
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let mut sum = None;
    while !text.is_empty() {
        let unit = text.iter().position(|byte| !is_number(byte))?;
        let (number, rest) = text.split_at(unit);
        let end = rest.iter().position(is_number).unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(end);
        let number = seconds(number)?;
        let part = match unit {
            b"ns" => number / 1_000_000_000,
            b"us" => number / 1_000_000,
            b"ms" => number / 1000,
            b"s" => number,
            b"m" => number.saturating_mul(60),
            b"h" => number.saturating_mul(3_600),
            b"d" => number.saturating_mul(86_400),
            _ => return None,
        };
        sum = Some(part.saturating_add(sum.unwrap_or_default()));
        text = rest;
    }
    sum
}

/// Reads one of the three dates of HTTP.
pub(super) fn date(text: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()
}

/// Reads a duration in any form, or the one until a point in time in any form.
pub(super) fn until(text: &[u8], now: SystemTime) -> Option<Duration> {
    if let Some(number) = seconds(text) {
        return match number.as_secs() {
            IN_MILLISECONDS.. => after(UNIX_EPOCH.checked_add(number / 1000)?, now),
            POINT_IN_TIME.. => after(UNIX_EPOCH.checked_add(number)?, now),
            _ => Some(number),
        };
    }
    let rfc_3339 = || humantime::parse_rfc3339(std::str::from_utf8(text).ok()?).ok();
    let point = || after(rfc_3339().or_else(|| date(text))?, now);
    with_units(text).or_else(point)
}

/// Returns the time until a point in time, which is zero if it has passed.
pub(super) fn after(point: SystemTime, now: SystemTime) -> Option<Duration> {
    Some(point.duration_since(now).unwrap_or_default())
}
