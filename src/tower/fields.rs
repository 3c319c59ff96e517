//! The fields that tell a client its limits, written by the draft that an option names.
//!
//! 1. Everything is written with structured fields (RFC 9651): names are strings, numbers are
//!    integers of at most 15 digits.
//! 2. Times are whole seconds, rounded up, at least 1: a client that comes earlier is rejected.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

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
    /// if nothing remains, otherwise until everything does. A concurrency limit has a `q` with
    /// `qu="concurrent-requests"`, and an `r`. All limits are in one field.
    Draft11,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` in seconds, of the limit
    /// with the least left.
    Legacy,
}

/// What a limit allows now, and the number of its part in the composition.
pub(super) type Statuses = SmallVec<[(usize, LimitStatus); 4]>;

type Line = SmallVec<[u8; 256]>;

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

impl RateLimitHeaders {
    /// Adds the fields. A rejection says only of exhausted limits when there is more.
    pub(super) fn write(
        self,
        policies: &[Policy],
        statuses: &Statuses,
        is_rejection: bool,
        to: &mut HeaderMap,
    ) {
        let items = statuses
            .iter()
            .enumerate()
            .filter_map(|(index, (_, status))| {
                let mut item = Item::new(status)?;
                if is_rejection && item.remaining > 0 {
                    item.reset = None;
                }
                Some((index, item))
            });
        match self {
            Self::Draft11 => write_draft_11(policies, items, to),
            Self::Legacy => write_legacy(items, to),
        }
    }
}

fn write_draft_11(
    policies: &[Policy],
    items: impl Iterator<Item = (usize, Item)>,
    to: &mut HeaderMap,
) {
    let (mut policy, mut limit) = (Line::new(), Line::new());
    for (index, item) in items {
        if !policy.is_empty() {
            policy.extend_from_slice(b", ");
            limit.extend_from_slice(b", ");
        }
        for line in [&mut policy, &mut limit] {
            write_name(line, policies, index);
        }
        write_number(&mut policy, b";q=", Some(item.quota));
        match item.window {
            None => policy.extend_from_slice(b";qu=\"concurrent-requests\""),
            window => write_number(&mut policy, b";w=", window),
        }
        write_number(&mut limit, b";r=", Some(item.remaining));
        write_number(&mut limit, b";t=", item.reset);
    }
    // Both are lists, so those of an inner layer stay.
    for (name, line) in [(POLICY, policy), (LIMIT, limit)] {
        if let (false, Ok(value)) = (line.is_empty(), HeaderValue::from_bytes(&line)) {
            to.append(name, value);
        }
    }
}

/// Writes the name of a policy: `default`, `default-2` and so on if it has none.
fn write_name(line: &mut Line, policies: &[Policy], index: usize) {
    match policies.get(index) {
        Some(policy) => line.extend_from_slice(policy.quoted().as_bytes()),
        None if index == 0 => line.extend_from_slice(b"\"default\""),
        None => {
            write_number(line, b"\"default-", Some(index as u64 + 1));
            line.push(b'"');
        }
    }
}

fn write_number(line: &mut Line, name: &[u8], number: Option<u64>) {
    if let Some(number) = number {
        line.extend_from_slice(name);
        let mut digits = itoa::Buffer::new();
        line.extend_from_slice(digits.format(number.min(LARGEST)).as_bytes());
    }
}

fn write_legacy(items: impl Iterator<Item = (usize, Item)>, to: &mut HeaderMap) {
    let Some((_, item)) = items.min_by_key(|(_, item)| item.remaining) else {
        return;
    };
    // An inner layer is for fewer requests, so its limit is the narrower one.
    let numbers = [
        (X_LIMIT, Some(item.quota)),
        (X_REMAINING, Some(item.remaining)),
        (X_RESET, item.reset),
    ];
    if to.contains_key(X_LIMIT) {
        return;
    }
    for (name, number) in numbers {
        if let Some(number) = number {
            to.insert(name, HeaderValue::from(number.min(LARGEST)));
        }
    }
}

/// Returns the latest time, in seconds, of limits that are exhausted.
pub(super) fn latest_reset(statuses: &Statuses) -> Option<u64> {
    let items = statuses.iter().filter_map(|(_, status)| Item::new(status));
    items
        .filter(|item| item.remaining == 0)
        .filter_map(|item| item.reset)
        .max()
}
