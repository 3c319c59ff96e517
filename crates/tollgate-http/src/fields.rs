//! Writes the fields that tell a client its limits, in the format of the draft that an option names.
//!
//! 1. Everything is written with structured fields (RFC 9651): names are strings, numbers are
//!    integers of at most 15 digits.
//! 2. Times are whole seconds, rounded up, at least 1: a client that returns earlier is rejected.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tollgate::Quota;
use tollgate::throttle::LimitStatus;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The largest integer of structured fields.
const LARGEST: u64 = 999_999_999_999_999;

/// The fields that tell clients their limits. See
/// [`Rejections::headers`](super::Rejections::headers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RateLimitHeaders {
    /// `RateLimit-Policy: "name";q=100;w=60` and `RateLimit: "name";r=50;t=30`, as in
    /// draft-ietf-httpapi-ratelimit-headers-11. `q` is the quota of a window of `w` seconds. `r` is the
    /// remaining part of it, which is at most `q` even if a burst above the quota remains. `t` is the number of
    /// seconds until the next call is admitted if nothing remains, otherwise until the whole burst is available. On a
    /// rejection, only exhausted limits have a `t`. A concurrency limit has a `q` with
    /// `qu="concurrent-requests"`, and an `r`.
    ///
    /// All limits of a throttle are in one line. A layer around another one adds a line, so give their
    /// policies different names.
    Draft11,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` in seconds, of one limit:
    /// the one that rejected the request or is exhausted for longer, otherwise the rate with the least
    /// remaining, or, without rates, the concurrency limit with the least remaining. The limit of a rate is its
    /// quota, or its burst if that is more. A layer around another one keeps the fields of the inner one.
    Legacy,
}

/// The written data of one limit.
struct Item {
    quota: u64,
    /// The window in seconds; `None` for a concurrency limit.
    window: Option<u64>,
    /// The maximum that can remain.
    most: u64,
    remaining: u64,
    /// The time until more remains, if it is known.
    reset: Option<Duration>,
}

impl Item {
    fn new(status: &LimitStatus) -> Option<Self> {
        match *status {
            LimitStatus::Rate { quota, .. } if quota.is_unlimited() => None,
            LimitStatus::Rate { quota, decision } => {
                let window = whole_seconds(quota.period());
                let until = match decision.remaining {
                    0 => decision.retry_after,
                    _ => Some(decision.reset_after),
                };
                Some(Self {
                    quota: quota_of(quota, window),
                    window: Some(window),
                    most: decision.limit,
                    remaining: decision.remaining,
                    reset: until.filter(|until| *until < Duration::MAX),
                })
            }
            LimitStatus::Concurrency { limit, available } => Some(Self {
                quota: limit,
                window: None,
                most: limit,
                remaining: available,
                reset: None,
            }),
            _ => None,
        }
    }

    /// Orders the limits by urgency: rates before others, then the least remaining, then the latest
    /// reset.
    fn urgency(&self) -> (bool, u64, Reverse<Option<Duration>>) {
        (self.window.is_none(), self.remaining, Reverse(self.reset))
    }
}

/// Returns the calls that a quota allows in a window of whole seconds.
fn quota_of(quota: Quota, window: u64) -> u64 {
    if quota.period().subsec_nanos() == 0 {
        return quota.count();
    }
    let nanos = u128::from(window) * 1_000_000_000;
    let calls = u128::from(quota.count()) * nanos / quota.period().as_nanos();
    u64::try_from(calls).unwrap_or(u64::MAX)
}

/// Returns whole seconds, rounded up, and at least 1, because 0 would mean "at once".
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    let begun = u64::from(duration.subsec_nanos() > 0);
    duration.as_secs().saturating_add(begun).max(1)
}

/// The fields of one response, written limit by limit.
pub(crate) struct Fields<'a> {
    headers: RateLimitHeaders,
    policies: &'a [Policy],
    is_rejection: bool,
    /// The number of limits so far.
    count: usize,
    policy: FieldValue,
    limit: FieldValue,
    /// For [`Legacy`](RateLimitHeaders::Legacy), which shows one limit.
    shown: Option<Item>,
    /// Whether the limit that rejected the request is among those so far.
    has_rejecting: bool,
    /// The latest time of an exhausted limit.
    latest: Option<Duration>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(
        headers: RateLimitHeaders,
        policies: &'a [Policy],
        is_rejection: bool,
    ) -> Self {
        Self {
            headers,
            policies,
            is_rejection,
            count: 0,
            policy: FieldValue::new(),
            limit: FieldValue::new(),
            shown: None,
            has_rejecting: false,
            latest: None,
        }
    }

    /// Adds a limit. `rejected` says that it is the one that rejected the request.
    pub(crate) fn add(&mut self, status: &LimitStatus, rejected: bool) {
        let index = self.count;
        self.count += 1;
        let Some(mut item) = Item::new(status) else {
            return;
        };
        self.latest = self.latest.max(exhausted_for(status));
        if item.remaining > 0 && self.is_rejection {
            // `Retry-After` is not before any time in the fields.
            item.reset = None;
        }
        match self.headers {
            RateLimitHeaders::Draft11 => self.add_draft_11(index, &item),
            RateLimitHeaders::Legacy => {
                // An exhausted limit also rejects requests.
                let may_replace = !self.has_rejecting || item.remaining == 0;
                let is_more_urgent = |shown: &Item| item.urgency() < shown.urgency();
                if rejected || may_replace && self.shown.as_ref().is_none_or(is_more_urgent) {
                    self.shown = Some(item);
                }
                self.has_rejecting |= rejected;
            }
        }
    }

    fn add_draft_11(&mut self, index: usize, item: &Item) {
        let values = [&mut self.policy, &mut self.limit];
        let [policy, limit] = values.map(|value| {
            if !value.is_empty() {
                value.push(b", ");
            }
            match self.policies.get(index) {
                Some(policy) => value.push(policy.quoted.as_bytes()),
                None if index == 0 => value.push(b"\"default\""),
                None => {
                    value.push_number(b"\"default-", index as u64 + 1);
                    value.push(b"\"");
                }
            }
            value
        });
        policy.push_number(b";q=", item.quota);
        match item.window {
            Some(window) => policy.push_number(b";w=", window),
            None => policy.push(b";qu=\"concurrent-requests\""),
        }
        limit.push_number(b";r=", item.remaining.min(item.quota));
        if let Some(reset) = item.reset {
            limit.push_number(b";t=", whole_seconds(reset));
        }
    }

    /// Adds the fields to those of a response. If the response is a rejection by an inner layer, its
    /// `Retry-After` becomes no earlier than the times here.
    pub(crate) fn write(&self, to: &mut HeaderMap) {
        // Both fields are lists, so those of an inner layer stay.
        for (name, value) in [(POLICY, &self.policy), (LIMIT, &self.limit)] {
            if let (false, Ok(value)) = (value.is_empty(), HeaderValue::from_bytes(value.bytes())) {
                to.append(name, value);
            }
        }
        // An inner layer covers fewer requests, so its limit is the narrower one.
        let shown = self.shown.as_ref();
        if let Some(item) = shown.filter(|_| !to.contains_key(X_LIMIT)) {
            let number = |number: u64| HeaderValue::from(number.min(LARGEST));
            to.insert(X_LIMIT, number(item.quota.max(item.most)));
            to.insert(X_REMAINING, number(item.remaining));
            if let Some(reset) = item.reset {
                to.insert(X_RESET, number(whole_seconds(reset)));
            }
        }
        if let Some(latest) = self.latest.map(whole_seconds) {
            let inner = to
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.parse().ok());
            if inner.is_some_and(|inner: u64| inner < latest) {
                to.insert(RETRY_AFTER, HeaderValue::from(latest));
            }
        }
    }
}

/// The value of a field. It allocates only if the value is long.
struct FieldValue {
    short: [u8; 96],
    len: usize,
    /// The whole value, if it does not fit into `short`.
    long: Vec<u8>,
}

impl FieldValue {
    fn new() -> Self {
        Self {
            short: [0; 96],
            len: 0,
            long: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn bytes(&self) -> &[u8] {
        self.short.get(..self.len).unwrap_or(&self.long)
    }

    #[inline]
    fn push(&mut self, text: &[u8]) {
        let begin = self.len;
        self.len += text.len();
        match self.short.get_mut(begin..self.len) {
            Some(room) => room.copy_from_slice(text),
            None => self.push_long(begin, text),
        }
    }

    #[cold]
    fn push_long(&mut self, begin: usize, text: &[u8]) {
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.short[..begin]);
        }
        self.long.extend_from_slice(text);
    }

    #[inline]
    fn push_number(&mut self, name: &[u8], number: u64) {
        self.push(name);
        self.push(itoa::Buffer::new().format(number.min(LARGEST)).as_bytes());
    }
}

/// Returns how long nothing remains of a rate, if it is exhausted and the time is known.
pub(crate) fn exhausted_for(status: &LimitStatus) -> Option<Duration> {
    match status {
        LimitStatus::Rate { decision, .. } if decision.remaining == 0 => {
            decision.retry_after.filter(|after| *after < Duration::MAX)
        }
        _ => None,
    }
}

/// Returns whether a call of cost 1 would not be admitted now.
pub(crate) fn is_exhausted(status: &LimitStatus) -> bool {
    match status {
        LimitStatus::Rate { decision, .. } => decision.retry_after != Some(Duration::ZERO),
        LimitStatus::Concurrency { available, .. } => *available == 0,
        _ => false,
    }
}

/// The name of a limit for clients, and whether the limit belongs to a client or to the server. See
/// [`Rejections::policies`](super::Rejections::policies).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name as a string of structured fields, with its quotes. The JSON string is the same,
    /// because the name is of printable ASCII.
    pub(crate) quoted: String,
    pub(crate) is_server: bool,
}

impl Policy {
    /// Creates the policy of a limit that belongs to one client, such as requests by address. A rejection
    /// by it has the status 429 Too Many Requests, or [another status](super::Rejections::status), and 413
    /// Content Too Large if the request costs more than the limit gives now.
    ///
    /// # Panics
    ///
    /// Panics if the name is empty, or has a character that is not printable ASCII, which HTTP fields
    /// cannot carry.
    ///
    /// # Examples
    ///
    /// See [`Rejections::policies`](super::Rejections::policies).
    #[track_caller]
    pub fn client(name: &str) -> Self {
        Self::new(name, false)
    }

    /// Creates the policy of a limit that all clients share, such as requests in total. A rejection
    /// by it has the status 503 Service Unavailable.
    ///
    /// # Panics
    ///
    /// Panics where [`client`](Self::client) does.
    ///
    /// # Examples
    ///
    /// See [`Rejections::policies`](super::Rejections::policies).
    #[track_caller]
    pub fn server(name: &str) -> Self {
        Self::new(name, true)
    }

    #[track_caller]
    fn new(name: &str, is_server: bool) -> Self {
        let is_printable = |byte: u8| (b' '..=b'~').contains(&byte);
        assert!(
            !name.is_empty() && name.bytes().all(is_printable),
            "the name of a policy must be of printable ASCII, not {name:?}"
        );
        let escaped = name.replace('\\', r"\\").replace('"', r#"\""#);
        Self {
            quoted: format!("\"{escaped}\""),
            is_server,
        }
    }

    /// Returns whether the name is reserved for limits without a policy.
    pub(crate) fn is_reserved(&self) -> bool {
        let number = self.quoted.strip_prefix("\"default-");
        number.is_some_and(|number| number.trim_end_matches('"').parse::<u64>().is_ok())
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.quoted)
    }
}
