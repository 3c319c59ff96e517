//! What the fields of a response say about the limits of its server, for clients that keep them:
//! [`ServerLimits::of`]. It takes the fields as the crate `http` has them, so any client can use it,
//! with or without tower.

// `conventions` has a table of the fields of each convention, `rate_limit` reads the list of the
// draft, and `formats` the numbers and times.
//
// 1. It is the only reader of these fields in this crate.
// 2. What cannot be read is ignored, and numbers that are too large saturate. Nothing panics.
// 3. The time is linear in the length of the fields: each is read a fixed number of times.
//
// The crate `rate-limits` 0.7 is not used: it reads the clock itself, in whole seconds; it chooses one
// provider and one of its windows, which loses requests or tokens; it fails without a limit or a
// reset; and it does not read the present draft.

mod conventions;
mod formats;
mod rate_limit;

use std::cmp::Reverse;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

/// The limits of a server, read from the fields of its response. See [`of`](Self::of).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The tightest limit of requests.
    pub requests: Option<Window>,
    /// The tightest limit of tokens, as language models count them.
    pub tokens: Option<Window>,
    /// How long the server asks its client to wait. It has this meaning with a status that refuses a
    /// request for now, such as 429 and 503.
    pub retry_after: Option<Duration>,
    /// The tightest limit of something else, such as bytes. Nobody can follow it, but a request may be
    /// refused because of it.
    others: Option<Window>,
}

/// What remains of one limit of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// The quota, if the server reports it. A limit without the remaining part is ignored, because nobody
    /// can follow it.
    pub limit: Option<u64>,
    /// The remaining part, rounded down.
    pub remaining: u64,
    /// The time until more remains, if the server says so, counted from when it made the response.
    /// Whether all of the quota returns then depends on the server.
    pub reset_after: Option<Duration>,
}

impl ServerLimits {
    /// Reads the fields of a response. `now` is the time of its arrival; it counts if a field has a
    /// point in time, and the response has no `Date`.
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
    /// Stripe and AWS have no field that says what remains; with them only `Retry-After` counts.
    /// A reset is a number of seconds, a duration such as `2m59.56s`, a point in time in seconds or
    /// milliseconds since 1970, or a date of RFC 3339 in UTC or of HTTP. Each convention may use any of them.
    ///
    /// Of several windows for the same thing, the one with the least left is returned, and if they are
    /// equal, the one with the later reset. If a field has several lines, each is a window. A
    /// `remaining` below 0 is 0. Fields that cannot be read are ignored. The time is linear in the
    /// length of the fields.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use tollgate_tower::server_limits::ServerLimits;
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
        // The clocks of the two may differ.
        let now = field(DATE.as_str()).and_then(formats::date).unwrap_or(now);
        let in_millis = field("retry-after-ms").and_then(formats::seconds);
        let retry_after = field(RETRY_AFTER.as_str());
        let (requests, others) = rate_limit::windows(headers);
        let limits = Self {
            requests,
            tokens: None,
            others,
            retry_after: in_millis.map(|millis| millis / 1000).or_else(|| {
                let value = retry_after?;
                let seconds = formats::integer(value).map(Duration::from_secs);
                let until = || formats::after(formats::date(value)?, now);
                seconds.or_else(until)
            }),
        };
        conventions::add_to(limits, headers, now)
    }

    /// Returns when the last of the limits that are used up has more.
    pub(crate) fn used_up(&self) -> Option<Duration> {
        let windows = [self.requests, self.tokens, self.others];
        let windows = windows.into_iter().flatten();
        windows.filter_map(Window::used_up).max()
    }
}

impl Window {
    /// Returns how much of a limit the server has counted, if only `remaining` is left of it, for
    /// [`RateLimiter::follow`](tollgate::RateLimiter::follow). `limit` is the one of the server that the
    /// limiter keeps, and not the one of this window, which may be another limit for the same thing: one of a
    /// day, or of output tokens only. So what is available afterwards is at most `remaining`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::HeaderMap;
    /// use tollgate::{Clock, Quota, RateLimiter};
    /// use tollgate_tower::server_limits::ServerLimits;
    ///
    /// // 2 % less than the server's 100 a minute.
    /// let limiter = RateLimiter::new(Quota::per_minute(98).burst(98)).clock(Clock::manual());
    /// let charge = limiter.try_acquire()?;
    /// // In place of a call, whose answer has these fields.
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

    /// Returns when more remains, if nothing does now.
    pub(crate) fn used_up(self) -> Option<Duration> {
        self.reset_after.filter(|_| self.remaining == 0)
    }

    /// Replaces a window that has more left.
    fn tighten(self, other: &mut Option<Self>) {
        let order = |window: &Self| (window.remaining, Reverse(window.reset_after));
        if other.is_none_or(|other| order(&self) < order(&other)) {
            *other = Some(self);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
