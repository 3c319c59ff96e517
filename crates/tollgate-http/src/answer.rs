//! Reads how long a response that refuses a request asks its client to wait, using [`ServerLimits`].
//!
//! 1. The statuses 429, 503 and 529 (of servers that are overloaded) are refusals. 403 and 418 are refusals only if a
//!    field asks for a wait, because they have other meanings, too: GitHub refuses with a 403, and Binance bans with a
//!    418. With other statuses, `Retry-After` (RFC 9110, section 10.2.3) has another meaning.
//! 2. `Retry-After`, or a similar field, counts first. Without it, an exhausted window counts, until its reset.
//! 3. Without either, the reset of a window whose remaining part is unknown counts, but not with 403 and 418: GitHub
//!    sends the fields of a limit also with a 403 for a right that is missing.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, Response, StatusCode};
use tollgate::throttle::Feedback;

use crate::ResponseClass;
use crate::server_limits::ServerLimits;

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
    let always_refuses = match status.as_u16() {
        429 | 503 | 529 => true,
        403 | 418 => false,
        _ => return None,
    };
    let limits = ServerLimits::of(headers, now());
    let lone_reset = || limits.lone_reset().filter(|_| always_refuses);
    limits.until_admitted().or_else(lone_reset)
}

/// Returns the feedback of a response over HTTP about the load of its server. A [refusal](ResponseClass) and the status
/// 504 (a gateway timeout) are [overload](Feedback::Overloaded), with the wait that a refusal asks for. Every other
/// response is [`Success`](Feedback::Success).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use http::Response;
/// use tollgate::throttle::Feedback;
///
/// let busy = Response::builder().status(503).header("retry-after", "7").body(())?;
/// let retry_after = Some(Duration::from_secs(7));
/// assert_eq!(tollgate_http::feedback(&busy), Feedback::Overloaded { retry_after });
///
/// let missing = Response::builder().status(404).body(())?;
/// assert_eq!(tollgate_http::feedback(&missing), Feedback::Success);
/// # Ok::<_, http::Error>(())
/// ```
pub fn feedback<B>(response: &Response<B>) -> Feedback {
    feedback_of_head(response.status(), response.headers())
}

/// Returns the [`feedback`] of a response with this status and these fields, for response types of other crates.
///
/// # Examples
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use tollgate::throttle::Feedback;
///
/// let feedback = tollgate_http::feedback_of_head(StatusCode::GATEWAY_TIMEOUT, &HeaderMap::new());
/// assert_eq!(feedback, Feedback::OVERLOADED);
/// ```
pub fn feedback_of_head(status: StatusCode, headers: &HeaderMap) -> Feedback {
    match ResponseClass::of(status, headers, SystemTime::now) {
        ResponseClass::Refused(retry_after) => Feedback::Overloaded { retry_after },
        ResponseClass::Success if status != StatusCode::GATEWAY_TIMEOUT => Feedback::Success,
        ResponseClass::Success | ResponseClass::RefusedAlone => {
            Feedback::Overloaded { retry_after: None }
        }
    }
}
