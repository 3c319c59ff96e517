//! Reads the limits of a server from the fields of its response, for clients that follow these limits:
//! [`ServerLimits::of`]. It reads the `HeaderMap` of the crate `http`, so any client can use it,
//! with or without tower.

#[cfg(test)]
pub(crate) mod tests;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use self::Counted::{Requests, Tokens};
use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

// 1. This module is the only reader of these fields in this crate.
// 2. Unreadable fields are ignored, and numbers that are too large saturate. Nothing panics.
// 3. The time is linear in the length of the fields: each is read a fixed number of times.
//
// The crate `rate-limits` 0.7 is not used: it reads the clock itself, in whole seconds; it chooses one
// provider and one of its windows, which loses requests or tokens; it fails without a limit or a
// reset; and it does not read the current draft.

/// The limits of a server, read from the fields of its response. See [`of`](Self::of).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The tightest limit of requests.
    pub requests: Option<Window>,
    /// The tightest limit of tokens, in the sense of language models.
    pub tokens: Option<Window>,
    /// How long the server asks its client to wait. The field has this meaning with a status that refuses a
    /// request temporarily, such as 429 and 503.
    pub retry_after: Option<Duration>,
    /// The tightest limit of another unit, such as bytes. A client cannot follow it, but the server may refuse a
    /// request because of it.
    others: Option<Window>,
}

/// The state of one limit of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// The quota, if the server reports it. A limit without the remaining part is ignored, because a client
    /// cannot follow it.
    pub limit: Option<u64>,
    /// The remaining part, rounded down.
    pub remaining: u64,
    /// The time until more remains, if the server reports it, counted from the creation of the response.
    /// Whether the whole quota is available then depends on the server.
    pub reset_after: Option<Duration>,
}

impl ServerLimits {
    /// Reads the fields of a response. `now` is the time of its arrival. It is used if a field has a
    /// point in time and the response has no `Date`.
    ///
    /// | convention | fields |
    /// |---|---|
    /// | RFC 9110 | `Retry-After` in seconds or as a date |
    /// | draft-ietf-httpapi-ratelimit-headers-11 | `RateLimit`, with the quota from `RateLimit-Policy` |
    /// | its draft 07, express-rate-limit | `RateLimit: limit=100, remaining=50, reset=30` |
    /// | its earlier drafts, GitLab | `RateLimit-Limit`, `-Remaining`, `-Reset` |
    /// | GitHub, Reddit, Discord | `X-RateLimit-Limit`, `-Remaining`, `-Reset` or `-Reset-After` |
    /// | OpenAI, Azure OpenAI, Groq | `x-ratelimit-*-requests` and `-tokens`, `retry-after-ms` |
    /// | Anthropic | `anthropic-ratelimit-requests-*`, `-tokens-*`, `-input-tokens-*` and `-output-tokens-*` |
    ///
    /// Stripe and AWS have no field for the remaining part; with them only `Retry-After` counts.
    /// A reset is a number of seconds, a duration such as `2m59.56s`, a point in time in seconds or
    /// milliseconds since 1970, or a date of RFC 3339 in UTC or of HTTP. Each convention may use any of them.
    ///
    /// Of several windows for the same unit, the one with the least remaining is returned, and if they are
    /// equal, the one with the later reset. If a field has several lines, each is a window. A
    /// `remaining` below 0 is 0. Unreadable fields are ignored. The time is linear in the
    /// length of the fields.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use tollgate_http::server_limits::ServerLimits;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-ratelimit-limit-requests", "60".parse()?);
    /// headers.insert("x-ratelimit-remaining-requests", "59".parse()?);
    /// headers.insert("x-ratelimit-reset-requests", "1s".parse()?);
    /// headers.insert("x-ratelimit-remaining-tokens", "149984".parse()?);
    ///
    /// let limits = ServerLimits::of(&headers, SystemTime::now());
    /// let requests = limits.requests.ok_or("no requests")?;
    /// assert_eq!((requests.limit, requests.remaining), (Some(60), 59));
    /// assert_eq!(requests.reset_after, Some(Duration::from_secs(1)));
    /// assert_eq!(limits.tokens.map(|tokens| tokens.remaining), Some(149_984));
    /// assert_eq!(limits.retry_after, None);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(headers: &HeaderMap, now: SystemTime) -> Self {
        let field = |name: &str| headers.get(name).map(|value| value.as_bytes().trim_ascii());
        // The clocks of the server and the client may differ.
        let now = field(DATE.as_str()).and_then(date).unwrap_or(now);
        let in_millis = field("retry-after-ms").and_then(seconds);
        let retry_after = field(RETRY_AFTER.as_str());
        let (requests, others) = windows(headers);
        let limits = Self {
            requests,
            tokens: None,
            others,
            retry_after: in_millis.map(|millis| millis / 1000).or_else(|| {
                let value = retry_after?;
                let seconds = integer(value).map(Duration::from_secs);
                let until = || after(date(value)?, now);
                seconds.or_else(until)
            }),
        };
        add_conventions(limits, headers, now)
    }

    /// Returns the latest reset of the exhausted limits.
    pub(crate) fn used_up(&self) -> Option<Duration> {
        let windows = [self.requests, self.tokens, self.others];
        let windows = windows.into_iter().flatten();
        windows.filter_map(Window::used_up).max()
    }
}

impl Window {
    /// Returns the used part of a limit if only `remaining` is left of it, for
    /// [`RateLimiter::follow`](tollgate::RateLimiter::follow). `limit` is the server's limit that the
    /// limiter enforces, and not the one of this window, which may be another limit for the same unit: a daily
    /// one, or one of output tokens only. So at most `remaining` is available afterwards.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::HeaderMap;
    /// use tollgate::{Clock, Quota, RateLimiter};
    /// use tollgate_http::server_limits::ServerLimits;
    ///
    /// // 2 % less than the server's 100 a minute.
    /// let limiter = RateLimiter::new(Quota::per_minute(98).burst(98)).clock(Clock::manual());
    /// let charge = limiter.try_acquire()?;
    /// // Stands in for a call whose response has these fields.
    /// let mut headers = HeaderMap::new();
    /// headers.insert("ratelimit", r#""default";r=40;t=36"#.parse()?);
    ///
    /// let server = ServerLimits::of(&headers, SystemTime::now());
    /// if let Some(window) = server.requests {
    ///     limiter.follow(&charge, window.used(100), window.reset_after.unwrap_or_default());
    /// }
    /// assert_eq!(limiter.snapshot().available, 38);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn used(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.remaining)
    }

    /// Returns the time until more remains, if nothing remains now.
    pub(crate) fn used_up(self) -> Option<Duration> {
        self.reset_after.filter(|_| self.remaining == 0)
    }

    /// Replaces a window that has more remaining.
    fn tighten(self, other: &mut Option<Self>) {
        let order = |window: &Self| (window.remaining, Reverse(window.reset_after));
        if other.is_none_or(|other| order(&self) < order(&other)) {
            *other = Some(self);
        }
    }
}

// Reads the conventions with one field for each number.

/// The unit that a convention counts.
#[derive(Clone, Copy)]
enum Counted {
    Requests,
    Tokens,
}

/// The fields of a window: the limit, the remaining part, and the reset. Of several resets, the first
/// readable one counts.
type Fields = (Counted, &'static str, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const CONVENTIONS: &[Fields] = &[
    // draft-ietf-httpapi-ratelimit-headers-06 and before, where the reset is in seconds; and GitLab
    // (User and IP rate limits, Response headers), where it is in seconds since 1970.
    (Requests, "ratelimit-limit", "ratelimit-remaining", &["ratelimit-reset"]),
    // GitHub (Rate limits for the REST API): seconds since 1970. Discord (Rate Limits): the same with
    // a fraction, and the remaining seconds with a fraction, which need no clock. Reddit (Data API Wiki):
    // the remaining part with a fraction, and the remaining seconds.
    (Requests, "x-ratelimit-limit", "x-ratelimit-remaining", &["x-ratelimit-reset-after", "x-ratelimit-reset"]),
    // OpenAI (Rate limits, Rate limits in headers) and Groq (Rate Limits): durations with units.
    // Azure OpenAI (Manage quota): the remaining part, without a limit or a reset.
    (Requests, "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", &["x-ratelimit-reset-requests"]),
    (Tokens, "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", &["x-ratelimit-reset-tokens"]),
    // Anthropic (Rate limits, Response headers): dates of RFC 3339.
    (Requests, "anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining", &["anthropic-ratelimit-requests-reset"]),
    (Tokens, "anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-remaining", &["anthropic-ratelimit-tokens-reset"]),
    (Tokens, "anthropic-ratelimit-input-tokens-limit", "anthropic-ratelimit-input-tokens-remaining", &["anthropic-ratelimit-input-tokens-reset"]),
    (Tokens, "anthropic-ratelimit-output-tokens-limit", "anthropic-ratelimit-output-tokens-remaining", &["anthropic-ratelimit-output-tokens-reset"]),
    // Stripe (Rate limits) names the limiter in `Stripe-Rate-Limited-Reason`, and AWS (Usage Plans and
    // Rate Limits in the SP-API) the rate in `x-amzn-RateLimit-Limit`. Neither reports the remaining part.
];

/// Adds the windows of all conventions. Lines at the same position form one window.
fn add_conventions(mut limits: ServerLimits, headers: &HeaderMap, now: SystemTime) -> ServerLimits {
    let lines = |name| {
        let lines = headers.get_all(name).into_iter();
        lines.map(|line| line.as_bytes().trim_ascii())
    };
    for (counted, limit, remaining, resets) in CONVENTIONS {
        if !headers.contains_key(*remaining) {
            continue;
        }
        let mut quotas = lines(*limit).map(count);
        let until = |text| until(text, now);
        let resets = resets.iter().map(|name| lines(*name).map(until));
        let mut resets: Vec<_> = resets.collect();
        for remaining in lines(*remaining) {
            let limit = quotas.next().flatten();
            let reset_after = resets.iter_mut().map(|lines| lines.next().flatten());
            let reset_after = reset_after.fold(None, Option::or);
            let Some(remaining) = parse_remaining(remaining) else {
                continue;
            };
            let window = Window {
                limit,
                remaining,
                reset_after,
            };
            window.tighten(match counted {
                Requests => &mut limits.requests,
                Tokens => &mut limits.tokens,
            });
        }
    }
    limits
}

// Reads numbers, durations and points in time in the formats of servers. Times are rounded up.

/// The smallest number of seconds that is a point in time since 1970. As a duration it would be 31 years.
const POINT_IN_TIME: u64 = 1_000_000_000;

/// The smallest point in time that counts milliseconds. In seconds it would be the year 5138.
const IN_MILLISECONDS: u64 = 100_000_000_000;

/// Reads digits without a sign. A number that is too large saturates.
fn integer(text: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let mut digits = text.iter().map(digit);
    let first = digits.next()??;
    digits.try_fold(first, |number, digit| {
        Some(number.saturating_mul(10).saturating_add(digit?))
    })
}

/// Reads a count and ignores the rest: the fraction of Reddit, or the windows that earlier drafts list
/// after the count.
fn count(text: &[u8]) -> Option<u64> {
    let end = text.iter().position(|byte| b".,; ".contains(byte));
    integer(&text[..end.unwrap_or(text.len())])
}

/// Reads a remaining count. A count below 0 becomes 0.
fn parse_remaining(text: &[u8]) -> Option<u64> {
    match text.strip_prefix(b"-") {
        Some(overdrawn) => count(overdrawn).map(|_| 0),
        None => count(text),
    }
}

/// Reads seconds with or without a fraction.
fn seconds(text: &[u8]) -> Option<Duration> {
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

/// Reads one of the three date formats of HTTP.
fn date(text: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()
}

/// Reads a duration, or the time until a point in time, in any form.
fn until(text: &[u8], now: SystemTime) -> Option<Duration> {
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
fn after(point: SystemTime, now: SystemTime) -> Option<Duration> {
    Some(point.duration_since(now).unwrap_or_default())
}

// Reads `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-11: lists of structured
// fields (RFC 9651). Draft 07 uses the same name for another list.

/// An item of a list: a policy, or its remaining part.
#[derive(Clone, Copy, Default)]
struct Item<'a> {
    /// The name with its quotes.
    name: &'a [u8],
    quota: Option<&'a [u8]>,
    unit: Option<&'a [u8]>,
    remaining: Option<&'a [u8]>,
    reset: Option<&'a [u8]>,
}

impl<'a> Item<'a> {
    fn new(text: &'a [u8]) -> Self {
        let mut item = Self::default();
        for part in RightSplit::new(text, b';').map(<[u8]>::trim_ascii) {
            // The first part is the leftmost.
            item.name = part;
            let (value, key) = match part {
                [b'q', b'=', value @ ..] => (value, &mut item.quota),
                [b'q', b'u', b'=', value @ ..] => (value, &mut item.unit),
                [b'r', b'=', value @ ..] => (value, &mut item.remaining),
                [b't', b'=', value @ ..] => (value, &mut item.reset),
                _ => continue,
            };
            // Of several parameters with one name, the last one counts.
            key.get_or_insert(value);
        }
        item
    }

    fn window(&self) -> Option<Window> {
        Some(Window {
            limit: None,
            remaining: integer(self.remaining?)?,
            reset_after: self.reset.and_then(integer).map(Duration::from_secs),
        })
    }
}

fn items<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = Item<'a>> {
    let lines = headers.get_all(name).into_iter();
    let items = lines.flat_map(|line| RightSplit::new(line.as_bytes(), b','));
    items.map(Item::new)
}

/// Returns the window of a line of draft 07, such as `limit=100, remaining=50, reset=30`.
fn draft_07(line: &[u8]) -> Option<Window> {
    let number = |name: &[u8]| {
        let mut parts = RightSplit::new(line, b',').map(<[u8]>::trim_ascii);
        parts.find_map(|part| integer(part.strip_prefix(name)?))
    };
    Some(Window {
        limit: number(b"limit="),
        remaining: number(b"remaining=")?,
        reset_after: number(b"reset=").map(Duration::from_secs),
    })
}

/// Returns the tightest limit of requests, and the tightest one of all other units.
fn windows(headers: &HeaderMap) -> (Option<Window>, Option<Window>) {
    let policies = items(headers, "ratelimit-policy").map(|policy| (policy.name, policy));
    let policies: HashMap<_, _> = policies.collect();
    let (mut requests, mut others) = (None, None);
    for item in items(headers, "ratelimit") {
        let Some(window) = item.window() else {
            continue;
        };
        let policy = policies.get(item.name);
        let unit = policy.and_then(|policy| policy.unit);
        if unit.is_some_and(|unit| unit != b"\"requests\"") {
            window.tighten(&mut others);
        } else {
            let limit = policy.and_then(|policy| integer(policy.quota?));
            Window { limit, ..window }.tighten(&mut requests);
        }
    }
    let lines = headers.get_all("ratelimit").into_iter();
    let draft_07 = lines.filter_map(|line| draft_07(line.as_bytes()));
    draft_07.for_each(|window| window.tighten(&mut requests));
    (requests, others)
}

// Splits field values outside quoted strings, from the right to the left.
//
// The closing quote identifies a quoted string. So text that a client wrote further to the left, such as an
// open quote, does not change how the elements that proxies appended are read. In a
// well-formed value the direction makes no difference.

/// Splits a field value at a separator outside quoted strings, from the right to the left.
///
/// It yields at least one element; elements may be empty.
pub(crate) struct RightSplit<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> RightSplit<'a> {
    pub(crate) fn new(value: &'a [u8], separator: u8) -> Self {
        let rest = Some(value);
        Self { rest, separator }
    }
}

impl<'a> Iterator for RightSplit<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        let mut quoted = false;
        for (at, byte) in rest.iter().enumerate().rev() {
            if *byte == b'"' {
                // Within a string, a quote after an odd number of backslashes belongs to the text.
                let escaped = |text: &[u8]| {
                    let backslashes = text.iter().rev().take_while(|byte| **byte == b'\\');
                    backslashes.count() % 2 == 1
                };
                quoted = !quoted || escaped(&rest[..at]);
            } else if *byte == self.separator && !quoted {
                self.rest = Some(&rest[..at]);
                return Some(&rest[at + 1..]);
            }
        }
        Some(rest)
    }
}
