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
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use http::{HeaderMap, StatusCode};
    /// use tollgate_http::ResponseClass;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("retry-after", "7".parse()?);
    /// let busy = StatusCode::SERVICE_UNAVAILABLE;
    /// let class = ResponseClass::of(busy, &headers, SystemTime::now);
    /// assert_eq!(class, ResponseClass::Refused(Some(Duration::from_secs(7))));
    ///
    /// let class = ResponseClass::of(busy, &HeaderMap::new(), SystemTime::now);
    /// assert_eq!(class, ResponseClass::RefusedAlone);
    /// # Ok::<_, http::header::InvalidHeaderValue>(())
    /// ```
    pub fn of(status: StatusCode, headers: &HeaderMap, now: impl FnOnce() -> SystemTime) -> Self {
        let asked = asked_wait(status, headers, now).filter(|wait| !wait.is_zero());
        match (status.as_u16(), asked) {
            (429, asked) => Self::Refused(asked),
            (503 | 529, None) => Self::RefusedAlone,
            (_, None) => Self::Success,
            (_, asked) => Self::Refused(asked),
        }
    }
}
