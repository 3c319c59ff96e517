//! The fields that tell a client its limits, written by the draft that an option names.
//!
//! 1. Everything is written with structured fields (RFC 9651): names are strings, numbers are
//!    integers of at most 15 digits.
//! 2. Times are whole seconds, rounded up, at least 1: a client that comes earlier is rejected.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::Policy;
use crate::quota::Quota;
use crate::throttle::LimitStatus;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The largest integer of structured fields.
const LARGEST: u64 = 999_999_999_999_999;

/// Which fields tell clients their limits. See
/// [`ThrottleLayer::headers`](super::ThrottleLayer::headers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RateLimitHeaders {
    /// `RateLimit-Policy: "name";q=100;w=60` and `RateLimit: "name";r=50;t=30`, as in
    /// draft-ietf-httpapi-ratelimit-headers-11. `q` is the quota of a window of `w` seconds, `r`
    /// what remains now, and `t` the seconds until more remains: until the next call is admitted
    /// if nothing remains, otherwise until everything does. On a rejection, only exhausted limits
    /// have a `t`. A concurrency limit has a `q` with `qu="concurrent-requests"`, and an `r`.
    ///
    /// All limits of a layer are in one line. A layer around another one adds a line, so give their
    /// policies different names.
    Draft11,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` in seconds, of the limit
    /// of this layer with the least left. A layer around another one leaves that one's fields.
    Legacy,
}

/// What is written of one limit.
struct Item {
    quota: u64,
    /// In seconds; `None` for a concurrency limit.
    window: Option<u64>,
    remaining: u64,
    /// In seconds, if known.
    reset: Option<u64>,
}

impl Item {
    fn new(status: &LimitStatus) -> Option<Self> {
        match *status {
            LimitStatus::Rate { quota, decision } => {
                let window = whole_seconds(quota.period());
                let until = match decision.remaining {
                    0 => decision.retry_after,
                    _ => decision.reset_after,
                };
                Some(Self {
                    quota: quota_of(quota, window),
                    window: Some(window),
                    remaining: decision.remaining,
                    reset: (until < Duration::MAX).then(|| whole_seconds(until)),
                })
            }
            LimitStatus::Concurrency { limit, available } => Some(Self {
                quota: limit,
                window: None,
                remaining: available,
                reset: None,
            }),
            LimitStatus::Unknown => None,
        }
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

/// Rounded up, and at least 1, because 0 would mean at once.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    let begun = u64::from(duration.subsec_nanos() > 0);
    duration.as_secs().saturating_add(begun).max(1)
}

/// The fields of one answer, written limit by limit.
pub(super) struct Fields<'a> {
    headers: RateLimitHeaders,
    policies: &'a [Policy],
    /// A rejection says only of exhausted limits when there is more.
    is_rejection: bool,
    /// The number of limits so far.
    count: usize,
    policy: Line,
    limit: Line,
    least: Option<Item>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(
        headers: RateLimitHeaders,
        policies: &'a [Policy],
        is_rejection: bool,
    ) -> Self {
        Self {
            headers,
            policies,
            is_rejection,
            count: 0,
            policy: Line::new(),
            limit: Line::new(),
            least: None,
        }
    }

    pub(super) fn add(&mut self, status: &LimitStatus) {
        let index = self.count;
        self.count += 1;
        let Some(mut item) = Item::new(status) else {
            return;
        };
        if self.is_rejection && item.remaining > 0 {
            item.reset = None;
        }
        match self.headers {
            RateLimitHeaders::Draft11 => self.add_draft_11(index, &item),
            RateLimitHeaders::Legacy => {
                let least = self.least.as_ref();
                if least.is_none_or(|least| item.remaining < least.remaining) {
                    self.least = Some(item);
                }
            }
        }
    }

    fn add_draft_11(&mut self, index: usize, item: &Item) {
        let lines = [&mut self.policy, &mut self.limit];
        let [policy, limit] = lines.map(|line| {
            if !line.is_empty() {
                line.push(b", ");
            }
            match self.policies.get(index) {
                Some(policy) => line.push(policy.quoted().as_bytes()),
                None if index == 0 => line.push(b"\"default\""),
                None => {
                    line.push_number(b"\"default-", index as u64 + 1);
                    line.push(b"\"");
                }
            }
            line
        });
        policy.push_number(b";q=", item.quota);
        match item.window {
            Some(window) => policy.push_number(b";w=", window),
            None => policy.push(b";qu=\"concurrent-requests\""),
        }
        limit.push_number(b";r=", item.remaining);
        if let Some(reset) = item.reset {
            limit.push_number(b";t=", reset);
        }
    }

    /// Adds the fields to those of an answer.
    pub(super) fn write(self, to: &mut HeaderMap) {
        // Both are lists, so those of an inner layer stay.
        for (name, line) in [(POLICY, &self.policy), (LIMIT, &self.limit)] {
            if let (false, Ok(value)) = (line.is_empty(), HeaderValue::from_bytes(line.bytes())) {
                to.append(name, value);
            }
        }
        // An inner layer is for fewer requests, so its limit is the narrower one.
        let least = self.least.filter(|_| !to.contains_key(X_LIMIT));
        if let Some(item) = least {
            to.insert(X_LIMIT, HeaderValue::from(item.quota.min(LARGEST)));
            to.insert(X_REMAINING, HeaderValue::from(item.remaining.min(LARGEST)));
            if let Some(reset) = item.reset {
                to.insert(X_RESET, HeaderValue::from(reset.min(LARGEST)));
            }
        }
    }
}

/// A line of text, which allocates only if it is long.
struct Line {
    short: [u8; 192],
    len: usize,
    /// All of it, if it is longer than that.
    long: Vec<u8>,
}

impl Line {
    fn new() -> Self {
        Self {
            short: [0; 192],
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

/// Returns the latest time, in seconds, of limits that are exhausted.
pub(super) fn latest_reset<'a>(statuses: impl Iterator<Item = &'a LimitStatus>) -> Option<u64> {
    let items = statuses.filter_map(Item::new);
    items
        .filter(|item| item.remaining == 0)
        .filter_map(|item| item.reset)
        .max()
}
