//! Reads whether a response refuses a request temporarily, and how long it asks its client to wait, using
//! [`ServerLimits`].
//!
//! 1. The statuses 429, 503 and 529 (of servers that are overloaded) are refusals. 403 and 418 are refusals only if a
//!    field asks for a wait, because they have other meanings, too: GitHub refuses with a 403, and Binance bans with a
//!    418. With other statuses, `Retry-After` (RFC 9110, section 10.2.3) has another meaning.
//! 2. `Retry-After`, or a similar field, counts first. Without it, an exhausted window counts, until its reset.
//! 3. Without either, the reset of a window whose remaining part is unknown counts, but not with 403 and 418: GitHub
//!    sends the fields of a limit also with a 403 for a right that is missing.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, Response, StatusCode};
use tollgate::adaptive::Feedback;

use crate::server_limits::ServerLimits;

/// How a status refuses a request.
enum Kind {
    /// In any case.
    Refusal,
    /// If a field asks for a wait.
    OnlyWithWait,
}

fn kind(status: StatusCode) -> Option<Kind> {
    match status.as_u16() {
        429 | 503 | 529 => Some(Kind::Refusal),
        403 | 418 => Some(Kind::OnlyWithWait),
        _ => None,
    }
}

/// Returns whether the request was refused temporarily, by a response with this status that asks for this wait: the
/// statuses are 429, 503 and 529, and 403 and 418 if they ask for a wait.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use http::StatusCode;
///
/// assert!(tollgate_http::is_refusal(StatusCode::TOO_MANY_REQUESTS, None));
/// assert!(tollgate_http::is_refusal(StatusCode::FORBIDDEN, Some(Duration::from_secs(5))));
/// assert!(!tollgate_http::is_refusal(StatusCode::FORBIDDEN, None));
/// ```
pub fn is_refusal(status: StatusCode, asked_wait: Option<Duration>) -> bool {
    match kind(status) {
        Some(Kind::Refusal) => true,
        Some(Kind::OnlyWithWait) => asked_wait.is_some(),
        None => false,
    }
}

/// Returns how long a response that refuses a request asks its client to wait: at most 31 days. It is the wait of
/// `Retry-After` or a similar field, or the time until the latest reset of an exhausted limit. `now` is used if a field
/// has a point in time but the response has no date.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::{HeaderMap, StatusCode};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("retry-after", "7".parse()?);
/// let busy = StatusCode::SERVICE_UNAVAILABLE;
/// let wait = tollgate_http::asked_wait(busy, &headers, SystemTime::now);
/// assert_eq!(wait, Some(Duration::from_secs(7)));
/// # Ok::<_, http::header::InvalidHeaderValue>(())
/// ```
pub fn asked_wait(
    status: StatusCode,
    headers: &HeaderMap,
    now: impl FnOnce() -> SystemTime,
) -> Option<Duration> {
    let kind = kind(status)?;
    let limits = ServerLimits::of(headers, now());
    limits.until_admitted().or_else(|| match kind {
        Kind::Refusal => limits.lone_reset(),
        Kind::OnlyWithWait => None,
    })
}

/// Returns the feedback of a response over HTTP about the load of its server. A temporary [refusal](is_refusal) and
/// the status 504 (a gateway timeout) are [overload](Feedback::Overloaded), with the wait that [`asked_wait`] reads. Every other answer
/// is [`Success`](Feedback::Success).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use http::Response;
/// use tollgate::adaptive::Feedback;
///
/// let busy = Response::builder().status(503).header("retry-after", "7").body(())?;
/// let retry_after = Some(Duration::from_secs(7));
/// assert_eq!(tollgate_http::feedback(&busy), Feedback::Overloaded { retry_after });
///
/// let missing = Response::builder().status(404).body(())?;
/// assert_eq!(tollgate_http::feedback(&missing), Feedback::Success);
/// # Ok::<_, http::Error>(())
/// ```
pub fn feedback<B>(answer: &Response<B>) -> Feedback {
    let status = answer.status();
    let retry_after = asked_wait(status, answer.headers(), SystemTime::now);
    if is_refusal(status, retry_after) || status == StatusCode::GATEWAY_TIMEOUT {
        Feedback::Overloaded { retry_after }
    } else {
        Feedback::Success
    }
}
