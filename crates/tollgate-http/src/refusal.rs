//! Writes the response to a rejected request.

use std::time::Duration;

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use super::Policy;
use super::fields::whole_seconds;
use tollgate::{AcquireError, ErrorKind};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The form of a rejection. See [`Rejections::answer`](super::Rejections::answer).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// A status, fields, and an empty body.
    #[default]
    Empty,
    /// A body of `application/problem+json` (RFC 9457) with the problem types of
    /// draft-ietf-httpapi-ratelimit-headers-11: `quota-exceeded`, or `temporary-reduced-capacity`
    /// for 503. It names the violated [policy](super::Rejections::policies), if there
    /// are policies.
    ProblemJson,
    /// A gRPC answer that consists only of trailers: `RESOURCE_EXHAUSTED` (8), or `UNAVAILABLE`
    /// (14) in place of 503, with `grpc-retry-pushback-ms` if the time is known.
    Grpc,
}

/// Returns the status for an error: 429 Too Many Requests if a later request may be admitted, 413
/// Content Too Large if the request costs more than the limit gives now, and 503 Service
/// Unavailable if the client is not the cause.
///
/// # Examples
///
/// A handler that enforces a limit by itself:
///
/// ```
/// use http::{HeaderName, HeaderValue, StatusCode, header};
/// use tollgate::{AcquireError, Quota, RateLimiter};
///
/// static MAILS: RateLimiter = RateLimiter::new(Quota::per_hour(1));
///
/// type Refused = (StatusCode, Option<[(HeaderName, HeaderValue); 1]>);
///
/// fn refused(error: AcquireError) -> Refused {
///     let after = tollgate_http::retry_after(&error).map(|value| [(header::RETRY_AFTER, value)]);
///     (tollgate_http::status(&error), after)
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
    match error.kind() {
        ErrorKind::ExceedsCapacity => StatusCode::PAYLOAD_TOO_LARGE,
        _ if may_retry(error) => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Returns the value of `Retry-After` for an error: whole seconds, rounded up, at least 1. Returns `None` if
/// the throttle does not know the time, or if the time never comes.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{AcquireError, ErrorKind};
///
/// let error = AcquireError::limited(Duration::from_millis(1001));
/// assert_eq!(tollgate_http::retry_after(&error).unwrap(), "2");
/// assert!(tollgate_http::retry_after(&AcquireError::new(ErrorKind::NoPermits)).is_none());
/// ```
pub fn retry_after(error: &AcquireError) -> Option<HeaderValue> {
    known(error).map(|after| HeaderValue::from(whole_seconds(after)))
}

/// Returns the time until the next try, if it is known.
pub(crate) fn known(error: &AcquireError) -> Option<Duration> {
    error.retry_after().filter(|after| *after < Duration::MAX)
}

/// Returns whether a later request may be admitted.
pub(crate) fn may_retry(error: &AcquireError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::RateLimited
            | ErrorKind::QueueFull
            | ErrorKind::NoPermits
            | ErrorKind::TimedOut
            | ErrorKind::RuntimeEnded
    )
}

/// The data of a rejection.
pub(crate) struct Refusal<'a> {
    pub(crate) status: StatusCode,
    /// The time until the next try, if it is known.
    pub(crate) after: Option<Duration>,
    /// The violated policy, if it is known.
    pub(crate) violated: Option<&'a Policy>,
}

impl Refusal<'_> {
    /// Returns the problem type, the gRPC code, and a text for people. The text reveals no internals of the
    /// service; the error in the extensions does.
    fn reason(&self) -> (&'static str, &'static str, &'static str) {
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => (
                "temporary-reduced-capacity",
                "14",
                "Capacity is temporarily reduced",
            ),
            _ => ("quota-exceeded", "8", "The quota is exceeded"),
        }
    }

    /// Writes the fields, and returns the status and the text of the body.
    pub(crate) fn write(&self, answer: Answer, to: &mut HeaderMap) -> (StatusCode, String) {
        to.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if answer == Answer::Grpc {
            self.write_grpc(to);
            return (StatusCode::OK, String::new());
        }
        if let Some(after) = self.after {
            to.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(after)));
        }
        if answer == Answer::Empty {
            return (self.status, String::new());
        }
        let json = HeaderValue::from_static("application/problem+json");
        to.insert(CONTENT_TYPE, json);
        (self.status, self.problem())
    }

    /// Returns the JSON problem. The strings are of printable ASCII, and escaped where necessary.
    fn problem(&self) -> String {
        let ((kind, _, title), status) = (self.reason(), self.status.as_u16());
        let violated = match self.violated {
            Some(policy) => format!(r#","violated-policies":[{policy}]"#),
            None => String::new(),
        };
        format!(
            "{{\"type\":\"https://iana.org/assignments/http-problem-types#{kind}\",\
             \"title\":\"{title}\",\"status\":{status}{violated}}}"
        )
    }

    fn write_grpc(&self, to: &mut HeaderMap) {
        let (_, code, title) = self.reason();
        to.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        to.insert(GRPC_STATUS, HeaderValue::from_static(code));
        to.insert(GRPC_MESSAGE, HeaderValue::from_static(title));
        if let Some(after) = self.after {
            let begun = u128::from(after.subsec_nanos() % 1_000_000 > 0);
            // Clients parse the value as a signed integer of 32 bits.
            let millis = (after.as_millis() + begun).min(i32::MAX as u128);
            to.insert(GRPC_PUSHBACK, HeaderValue::from(millis as u64));
        }
    }
}
