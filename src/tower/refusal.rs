//! What a client is told when its request was rejected.

use std::time::Duration;

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use super::Policy;
use super::fields::whole_seconds;
use crate::error::{AcquireError, ErrorKind};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The form of a rejection. See [`ThrottleLayer::answer`](super::ThrottleLayer::answer).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// A status, fields, and an empty body.
    #[default]
    Empty,
    /// A body of `application/problem+json` (RFC 9457) with the problem types of
    /// draft-ietf-httpapi-ratelimit-headers-11: `quota-exceeded`, or `temporary-reduced-capacity`
    /// for 503. It names the [policy](super::ThrottleLayer::policies) that was violated, if there
    /// are policies.
    ProblemJson,
    /// An answer of gRPC that consists only of trailers: `RESOURCE_EXHAUSTED` (8), or `UNAVAILABLE`
    /// (14) in place of 503, with `grpc-retry-pushback-ms` if the time is known.
    Grpc,
}

/// Returns the status for an error: 429 Too Many Requests if a later request may be admitted, and
/// 503 Service Unavailable if the client is not the cause. The [table](crate::tower#refusals) has
/// all kinds.
///
/// # Examples
///
/// A handler that limits by itself:
///
/// ```
/// use axum::http::{HeaderName, HeaderValue, StatusCode, header};
/// use tollgate::{AcquireError, Quota, RateLimiter, tower};
///
/// static MAILS: RateLimiter = RateLimiter::new(Quota::per_hour(1));
///
/// type Refused = (StatusCode, Option<[(HeaderName, HeaderValue); 1]>);
///
/// fn refused(error: AcquireError) -> Refused {
///     let after = tower::retry_after(&error).map(|value| [(header::RETRY_AFTER, value)]);
///     (tower::status(&error), after)
/// }
///
/// fn send() -> Result<(), Refused> {
///     MAILS.try_acquire().map_err(refused)?;
///     Ok(())
/// }
///
/// assert!(send().is_ok());
/// let (status, after) = send().unwrap_err();
/// assert_eq!((status.as_u16(), after.unwrap()[0].1.to_str()?), (429, "3600"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn status(error: &AcquireError) -> StatusCode {
    match may_retry(error) {
        true => StatusCode::TOO_MANY_REQUESTS,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Returns the value of `Retry-After` for an error: whole seconds, rounded up, at least 1. `None` if
/// the throttle does not know the time, or if it never comes.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{AcquireError, ErrorKind, tower};
///
/// let error = AcquireError::limited(Duration::from_millis(1001));
/// assert_eq!(tower::retry_after(&error).unwrap(), "2");
/// assert!(tower::retry_after(&AcquireError::new(ErrorKind::NoPermits)).is_none());
/// ```
pub fn retry_after(error: &AcquireError) -> Option<HeaderValue> {
    seconds(error).map(HeaderValue::from)
}

/// Returns the same in seconds.
pub(super) fn seconds(error: &AcquireError) -> Option<u64> {
    known(error).map(whole_seconds)
}

fn known(error: &AcquireError) -> Option<Duration> {
    error.retry_after().filter(|after| *after < Duration::MAX)
}

/// Returns whether a later request may be admitted.
pub(super) fn may_retry(error: &AcquireError) -> bool {
    match error.kind() {
        ErrorKind::RateLimited
        | ErrorKind::QueueFull
        | ErrorKind::NoPermits
        | ErrorKind::TimedOut => true,
        ErrorKind::Closed
        | ErrorKind::Cancelled
        | ErrorKind::ExceedsCapacity
        | ErrorKind::TooManyKeys
        | ErrorKind::Store => false,
    }
}

/// A rejection before it is written.
pub(super) struct Refusal<'a> {
    pub(super) error: &'a AcquireError,
    pub(super) status: StatusCode,
    /// The value of `Retry-After`.
    pub(super) seconds: Option<u64>,
    /// The policy that was violated, if known.
    pub(super) violated: Option<&'a Policy>,
}

impl Refusal<'_> {
    fn is_overload(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    /// Writes the fields, and returns the status and the text of the body.
    pub(super) fn write(&self, answer: Answer, to: &mut HeaderMap) -> (StatusCode, String) {
        to.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if answer == Answer::Grpc {
            self.write_grpc(to);
            return (StatusCode::OK, String::new());
        }
        if let Some(seconds) = self.seconds {
            to.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if answer == Answer::Empty {
            return (self.status, String::new());
        }
        let json = HeaderValue::from_static("application/problem+json");
        to.insert(CONTENT_TYPE, json);
        (self.status, self.problem())
    }

    /// The strings are of printable ASCII, and escaped where they have to be.
    fn problem(&self) -> String {
        let (kind, title) = match self.is_overload() {
            true => (
                "temporary-reduced-capacity",
                "Capacity is temporarily reduced",
            ),
            false => ("quota-exceeded", "The quota is exceeded"),
        };
        let violated = match self.violated {
            Some(policy) => format!(r#","violated-policies":[{policy}]"#),
            None => String::new(),
        };
        let status = self.status.as_u16();
        format!(
            "{{\"type\":\"https://iana.org/assignments/http-problem-types#{kind}\",\
             \"title\":\"{title}\",\"status\":{status}{violated}}}"
        )
    }

    fn write_grpc(&self, to: &mut HeaderMap) {
        let (code, pushback) = match self.is_overload() {
            true => ("14", known(self.error)),
            false => ("8", known(self.error)),
        };
        to.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        to.insert(GRPC_STATUS, HeaderValue::from_static(code));
        if let Ok(message) = HeaderValue::from_str(&percent_encoded(&self.error.to_string())) {
            to.insert(GRPC_MESSAGE, message);
        }
        if let Some(pushback) = pushback {
            let begun = u128::from(pushback.subsec_nanos() % 1_000_000 > 0);
            let millis = (pushback.as_millis() + begun).min(i64::MAX as u128);
            to.insert(GRPC_PUSHBACK, HeaderValue::from(millis as u64));
        }
    }
}

/// Encodes a message as gRPC asks for.
fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b'%' | 0..=0x1f | 0x7f.. => encoded.push_str(&format!("%{byte:02X}")),
            _ => encoded.push(byte.into()),
        }
    }
    encoded
}
