//! Reads the limits of a server from the fields of its response, for clients that follow these limits:
//! [`ServerLimits::of`]. It reads the `HeaderMap` of the crate `http`, so any client can use it.

mod names;
#[cfg(test)]
pub(crate) mod tests;
mod values;
mod windows;

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::DATE;

use self::names::{FieldName, Part, Scale};
use self::values::Wait;
use self::windows::Windows;

// 1. This module is the only reader of these fields in this crate. `names` has the grammar of their names, `values`
//    that of their values, and `windows` joins the fields of a window.
// 2. What is unreadable or ambiguous is ignored, and numbers that are too large saturate. Nothing panics.
// 3. The time is linear in the length of the fields: each is read a fixed number of times.
//
// The crate `rate-limits` 0.7 is not used: it reads the clock itself, in whole seconds; it chooses one
// provider and one of its windows, which loses requests or tokens; it fails without a limit or a
// reset; and it does not read the current draft.

/// The limits of a server, read from the fields of its response. See [`of`](Self::of).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerLimits {
    windows: Vec<Window>,
    retry_after: Option<Duration>,
    /// The resets of windows whose remaining part is unknown.
    lone_resets: Vec<Duration>,
}

/// The state of one limit of a server: a number of units in a window of time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// The name of the window, or an empty string. It is the name of the policy or the resource if the server reports
    /// one, and otherwise the words of the fields' names that tell it from other windows, such as `day`.
    pub name: Arc<str>,
    /// The unit that the limit counts.
    pub unit: Unit,
    /// The quota, if the server reports it. A limit without the remaining part is ignored, because a client
    /// cannot follow it.
    pub limit: Option<u64>,
    /// The remaining part, rounded down.
    pub remaining: u64,
    /// The time until more remains, if the server reports it, counted from the creation of the response.
    /// Whether the whole quota is available then depends on the server.
    pub reset_after: Option<Duration>,
}

/// The unit that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// Requests.
    Requests,
    /// Tokens of a language model, of input and output together.
    Tokens,
    /// Tokens of the prompt.
    InputTokens,
    /// Tokens that the model generates.
    OutputTokens,
    /// Bytes of content.
    Bytes,
    /// Another unit, such as requests at once or points, or one that cannot be known from the fields.
    Other,
}

impl ServerLimits {
    /// Reads the fields of a response. `now` is the time of its arrival. It is used if a field has a
    /// point in time and the response has no `Date`.
    ///
    /// Field names are read by their words, in any order: a prefix, "rate limit", a part of the window (limit,
    /// remaining, used, reset), a unit, and a period or a scope. So `X-RateLimit-Remaining`,
    /// `x-ratelimit-remaining-tokens-minute` and `anthropic-ratelimit-output-tokens-reset` are read without a list of
    /// providers. `RateLimit` and `RateLimit-Policy` are read as in draft-ietf-httpapi-ratelimit-headers-11 and in
    /// its earlier drafts. A quota of the draft belongs to the item with the same name.
    ///
    /// | value | forms |
    /// |---|---|
    /// | a count | digits, with a fraction, or `32/40` for 32 used of 40; below 0 it is 0 |
    /// | a reset or a wait | seconds, with a fraction; durations such as `2m59.56s` and `120ms`; seconds or milliseconds since 1970; a date of RFC 3339 with `Z` or an offset; the three dates of HTTP |
    /// | several windows | lines, or elements between commas, with the same number in each field |
    ///
    /// What can be read in two ways is ignored, and the rest of the response is still read: a local time without an
    /// offset, and a bare number of seconds above a day, which may be milliseconds, unless the window is known to be as
    /// long. A name with unknown words after "rate limit" counts [`Other`](Unit::Other), and not requests. A wait or a
    /// reset that is more than 31 days away is ignored. The time is linear in the length of the fields.
    ///
    /// Stripe and AWS have no field for the remaining part; with them only `Retry-After` counts.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use tollgate_http::server_limits::{ServerLimits, Unit};
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-ratelimit-limit-requests", "60".parse()?);
    /// headers.insert("x-ratelimit-remaining-requests", "59".parse()?);
    /// headers.insert("x-ratelimit-reset-requests", "1s".parse()?);
    /// headers.insert("x-ratelimit-remaining-tokens", "149984".parse()?);
    ///
    /// let limits = ServerLimits::of(&headers, SystemTime::now());
    /// let requests = limits.tightest(Unit::Requests).ok_or("no requests")?;
    /// assert_eq!((requests.limit, requests.remaining), (Some(60), 59));
    /// assert_eq!(requests.reset_after, Some(Duration::from_secs(1)));
    /// let tokens = limits.tightest(Unit::Tokens);
    /// assert_eq!(tokens.map(|tokens| tokens.remaining), Some(149_984));
    /// assert_eq!(limits.windows().count(), 2);
    /// assert_eq!(limits.retry_after(), None);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(headers: &HeaderMap, now: SystemTime) -> Self {
        // The clocks of the server and the client may differ.
        let date = headers
            .get(DATE)
            .and_then(|date| values::date(date.as_bytes()));
        let now = date.unwrap_or(now);
        let mut windows = Windows::default();
        let mut retry_after = None;
        for name in headers.keys() {
            let Some(field) = FieldName::parse(name.as_str()) else {
                continue;
            };
            let lines = headers.get_all(name).into_iter();
            let lines = lines.map(|line| line.as_bytes().trim_ascii());
            if field.part == Part::Retry {
                let waits = lines.filter_map(|line| Wait::parse(line, field.scale, now));
                let is_exact = field.scale == Scale::Millis;
                let waits = waits.map(|wait| (is_exact, wait.duration));
                // Milliseconds are the exact form of the same wait. Otherwise the longest counts.
                retry_after = waits.max().max(retry_after);
            } else {
                windows.add(field, lines, now);
            }
        }
        let (windows, lone_resets) = windows.finish();
        Self {
            windows,
            retry_after: retry_after.map(|(_, wait)| wait),
            lone_resets,
        }
    }

    /// Returns all windows, in the order of their fields.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::HeaderMap;
    /// use tollgate_http::server_limits::ServerLimits;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-ratelimit-remaining-minute", "3".parse()?);
    /// headers.insert("x-ratelimit-remaining-day", "250".parse()?);
    ///
    /// let limits = ServerLimits::of(&headers, SystemTime::now());
    /// let remaining = limits.windows().map(|window| (&*window.name, window.remaining));
    /// assert!(remaining.eq([("minute", 3), ("day", 250)]));
    /// # Ok::<_, http::header::InvalidHeaderValue>(())
    /// ```
    pub fn windows(&self) -> impl Iterator<Item = &Window> {
        self.windows.iter()
    }

    /// Returns the window of this unit with the least remaining. Of several that are equal, it is the one with the
    /// latest reset. A server may report several limits of one unit, for example Anthropic those of its priority tier
    /// beside the usual ones: choose among the [windows](Self::windows) by name then.
    ///
    /// # Examples
    ///
    /// See [`of`](Self::of).
    pub fn tightest(&self, unit: Unit) -> Option<&Window> {
        let windows = self.windows().filter(|window| window.unit == unit);
        windows.min_by_key(|window| (window.remaining, Reverse(window.reset_after)))
    }

    /// Returns how long the server asks its client to wait, in `Retry-After` or a similar field. The fields have this
    /// meaning with a status that refuses a request temporarily, such as 429 and 503:
    /// [`asked_wait`](crate::asked_wait) takes the status into account, and the windows, too.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use tollgate_http::server_limits::ServerLimits;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("retry-after", "2.0".parse()?);
    /// let limits = ServerLimits::of(&headers, SystemTime::now());
    /// assert_eq!(limits.retry_after(), Some(Duration::from_secs(2)));
    /// # Ok::<_, http::header::InvalidHeaderValue>(())
    /// ```
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns how long a refused request has to wait: what the server asks for, or until the latest reset of an
    /// exhausted window.
    pub(crate) fn until_admitted(&self) -> Option<Duration> {
        let exhausted = || self.windows().filter_map(Window::exhausted_for).max();
        self.retry_after.or_else(exhausted)
    }

    /// Returns the only reset of a window whose remaining part is unknown. Several differ in an unknown way.
    pub(crate) fn lone_reset(&self) -> Option<Duration> {
        let (first, others) = self.lone_resets.split_first()?;
        others.iter().all(|other| other == first).then_some(*first)
    }
}

impl Window {
    /// Returns the used part of a limit if only `remaining` is left of it, for
    /// [`RateLimiter::follow`](tollgate::RateLimiter::follow). `limit` is the server's limit that the
    /// limiter enforces, and not the one of this window, which may be another limit for the same unit, such as a
    /// daily one. So at most `remaining` is available afterwards.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::HeaderMap;
    /// use tollgate::{Clock, Quota, RateLimiter};
    /// use tollgate_http::server_limits::{ServerLimits, Unit};
    ///
    /// // 2 % less than the server's 100 a minute.
    /// let limiter = RateLimiter::new(Quota::per_minute(98).burst(98)).clock(Clock::manual());
    /// let charge = limiter.try_acquire()?;
    /// // Stands in for a call whose response has these fields.
    /// let mut headers = HeaderMap::new();
    /// headers.insert("ratelimit", r#""default";r=40;t=36"#.parse()?);
    ///
    /// let server = ServerLimits::of(&headers, SystemTime::now());
    /// if let Some(window) = server.tightest(Unit::Requests) {
    ///     limiter.follow(&charge, window.used(100), window.reset_after.unwrap_or_default());
    /// }
    /// assert_eq!(limiter.snapshot().available, 38);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn used(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.remaining)
    }

    /// Returns the time until more remains, if nothing remains now and the time is known.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use tollgate_http::server_limits::{ServerLimits, Unit};
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("ratelimit", r#""minute";r=0;t=36, "day";r=7;t=3600"#.parse()?);
    /// let limits = ServerLimits::of(&headers, SystemTime::now());
    /// let exhausted = limits.windows().filter_map(|window| window.exhausted_for());
    /// assert!(exhausted.eq([Duration::from_secs(36)]));
    /// # Ok::<_, http::header::InvalidHeaderValue>(())
    /// ```
    pub fn exhausted_for(&self) -> Option<Duration> {
        self.reset_after.filter(|_| self.remaining == 0)
    }
}
