//! The response to a rejected request.

use std::time::Duration;

use http::header::{HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};

use super::ThrottledBody;
use crate::error::{AcquireError, ErrorKind};

/// Returns the response; `status` is for the kinds after which the client may try again.
pub(super) fn refusal<B, P>(
    error: AcquireError,
    status: StatusCode,
) -> Response<ThrottledBody<B, P>> {
    let mut answer = Response::new(ThrottledBody::empty());
    *answer.status_mut() = match error.kind() {
        ErrorKind::RateLimited
        | ErrorKind::QueueFull
        | ErrorKind::NoPermits
        | ErrorKind::TimedOut => status,
        ErrorKind::Closed
        | ErrorKind::Cancelled
        | ErrorKind::ExceedsCapacity
        | ErrorKind::TooManyKeys
        | ErrorKind::Store => StatusCode::SERVICE_UNAVAILABLE,
    };
    // A `Retry-After` of forever makes no sense.
    if let Some(after) = error.retry_after().filter(|after| *after < Duration::MAX) {
        let seconds = HeaderValue::from(whole_seconds(after));
        answer.headers_mut().insert(RETRY_AFTER, seconds);
    }
    answer.extensions_mut().insert(error);
    answer
}

/// Rounded up: a client that retries earlier is rejected again. At least 1, because 0 would mean at
/// once.
fn whole_seconds(duration: Duration) -> u64 {
    let begun = u64::from(duration.subsec_nanos() > 0);
    duration.as_secs().saturating_add(begun).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up_and_at_least_one() {
        let cases = [
            (Duration::ZERO, 1),
            (Duration::from_nanos(1), 1),
            (Duration::from_secs(1), 1),
            (Duration::from_nanos(1_000_000_001), 2),
            (Duration::from_millis(59_999), 60),
            (Duration::from_secs(60), 60),
            (Duration::MAX, u64::MAX),
        ];
        for (duration, seconds) in cases {
            assert_eq!(whole_seconds(duration), seconds, "{duration:?}");
        }
    }
}
