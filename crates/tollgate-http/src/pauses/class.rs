//! [`ResponseClass`]: what a response says about its origin.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};

use crate::server_limits::ServerLimits;

/// What a response says about its origin.
///
/// # Usual meanings
///
/// | response | meaning |
/// |---|---|
/// | 429 | the origin refuses requests, for the time in a field if there is one |
/// | 503 or 529 with such a field | the same |
/// | 503 or 529 without one | the request was refused alone: one path that is overloaded is not a limit |
/// | 403 or 418 with such a field | the origin refuses requests |
/// | any other, a 404 or a 500 too | it is no refusal |
///
/// A field is a `Retry-After`, or else an exhausted limit in one of the conventions that
/// [`ServerLimits`](crate::server_limits::ServerLimits::of) reads, until its reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseClass {
    /// It is no refusal.
    Success,
    /// The request was refused alone. It may be repeated after a delay, and other requests go on.
    RefusedAlone,
    /// The origin refuses requests: for this long, or for an unknown time.
    Refused(Option<Duration>),
}

impl ResponseClass {
    /// Returns the usual meaning of a response. `now` is used if a field has a point in time and the response has no
    /// date.
    pub(super) fn of(status: StatusCode, headers: &HeaderMap, now: fn() -> SystemTime) -> Self {
        let asked = || {
            let limits = ServerLimits::of(headers, now());
            limits.retry_after.or_else(|| limits.used_up())
        };
        match status.as_u16() {
            429 => Self::Refused(asked()),
            503 | 529 => asked().map_or(Self::RefusedAlone, |wait| Self::Refused(Some(wait))),
            403 | 418 => asked().map_or(Self::Success, |wait| Self::Refused(Some(wait))),
            _ => Self::Success,
        }
    }
}
