//! [`ResponseClass`]: what a response says about its origin.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};

use crate::asked_wait;

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
/// [`asked_wait`] reads the field: a `Retry-After`, or else an exhausted limit, until its reset. A wait of
/// nothing is no such field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseClass {
    /// It is no refusal.
    Success,
    /// The request was refused alone. It may be repeated after the [first backoff](super::Pauses::backoff), a second by
    /// default, and then after twice that. Other requests go on.
    RefusedAlone,
    /// The origin refuses requests: for this long, or for an unknown time.
    Refused(Option<Duration>),
}

impl ResponseClass {
    /// Returns the usual meaning of a response. `now` is used if a field has a point in time and the response has no
    /// date.
    pub(super) fn of(status: StatusCode, headers: &HeaderMap, now: fn() -> SystemTime) -> Self {
        let asked = || asked_wait(status, headers, now).filter(|wait| !wait.is_zero());
        match status.as_u16() {
            429 => Self::Refused(asked()),
            503 | 529 => asked().map_or(Self::RefusedAlone, |wait| Self::Refused(Some(wait))),
            403 | 418 => asked().map_or(Self::Success, |wait| Self::Refused(Some(wait))),
            _ => Self::Success,
        }
    }
}
