//! Reads how long an answer asks its client to wait, using [`ServerLimits`].
//!
//! 1. `Retry-After` (RFC 9110, section 10.2.3) counts with the statuses 429, 503 and 403; with other
//!    statuses it has another meaning.
//! 2. If there is no `Retry-After`, an exhausted limit counts with the same statuses: until its
//!    reset, in the convention that the server uses.
//! 3. On request, an exhausted limit of requests counts with any status. Limits of tokens do not, because
//!    other requests may need none.
//! 4. A 403 is a temporary refusal only if it asks for a wait, as GitHub's limits do.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, Response, StatusCode};
use tollgate::adaptive::Feedback;

use crate::server_limits::{ServerLimits, Window};

/// Returns whether the request was refused temporarily, by a response with this status that asks for this wait: the
/// statuses are 429 and 503, and 403 if it asks for a wait.
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
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => true,
        StatusCode::FORBIDDEN => asked_wait.is_some(),
        _ => false,
    }
}

/// Returns how long a response asks its client to wait. `now` is used if a field has a point in time but the response
/// has no date. With `any_status`, exhausted limits of requests also count in responses that do not
/// refuse the request.
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
/// let wait = tollgate_http::asked_wait(busy, &headers, false, SystemTime::now);
/// assert_eq!(wait, Some(Duration::from_secs(7)));
/// # Ok::<_, http::header::InvalidHeaderValue>(())
/// ```
pub fn asked_wait(
    status: StatusCode,
    headers: &HeaderMap,
    any_status: bool,
    now: fn() -> SystemTime,
) -> Option<Duration> {
    let limits = || ServerLimits::of(headers, now());
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::FORBIDDEN => {
            let limits = limits();
            limits.retry_after.or_else(|| limits.used_up())
        }
        _ if any_status => limits().requests.and_then(Window::used_up),
        _ => None,
    }
}

/// Returns the feedback of a response over HTTP about the load of its server. The statuses 429, 503, 504 (a
/// gateway timeout) and a 403 that asks for a wait are [overload](Feedback::Overloaded). All except 504 may
/// ask for a wait, which is read by [`asked_wait`]. Every other answer
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
    let retry_after = asked_wait(status, answer.headers(), false, SystemTime::now);
    if is_refusal(status, retry_after) || status == StatusCode::GATEWAY_TIMEOUT {
        Feedback::Overloaded { retry_after }
    } else {
        Feedback::Success
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::HeaderValue;
    use http::header::{DATE, HeaderName, RETRY_AFTER};

    use super::*;
    use crate::server_limits::tests::{cases, numbers, value};

    const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

    const NOW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(784_111_777)
    }

    /// Returns the wait of an answer with these fields, in seconds. The option to count `RateLimit` with any
    /// status makes no difference to refusals.
    fn asked(status: u16, fields: &[(HeaderName, &[u8])]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let value = HeaderValue::from_bytes(value).expect("a value");
            headers.append(name.clone(), value);
        }
        let status = StatusCode::from_u16(status).expect("a status");
        let wait = asked_wait(status, &headers, true, now);
        let expected = wait.filter(|_| is_refusal(status, wait));
        assert_eq!(asked_wait(status, &headers, false, now), expected);
        let wait = wait?;
        assert_eq!(wait.subsec_nanos(), 0);
        Some(wait.as_secs())
    }

    #[test]
    fn asked_wait_reads_retry_after_of_refusals() {
        let cases: &[(&str, Option<u64>)] = &[
            ("0", Some(0)),
            ("120", Some(120)),
            (" 007 ", Some(7)),
            ("18446744073709551616", Some(u64::MAX)),
            ("99999999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            ("Sun Nov  6 08:50:37 1994", Some(60)),
            (NOW, Some(0)),
            ("Sun, 06 Nov 1994 08:49:36 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(252_618_189_022)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("1, 2", None),
            ("soon", None),
            ("Sun, 06 Nov 1994 08:50:37", None),
            ("Mon, 06 Nov 1994 08:50:37 GMT", None),
            ("Sun, 31 Feb 1994 08:50:37 GMT", None),
            ("\u{b2}", None),
        ];
        for (value, expected) in cases {
            let field = &[(RETRY_AFTER, value.as_bytes())];
            for status in [403, 429, 503] {
                assert_eq!(asked(status, field), *expected, "{value}");
            }
            for status in [200, 301, 413, 500, 502] {
                assert_eq!(asked(status, field), None, "{value}");
            }
        }
    }

    #[test]
    fn asked_wait_counts_from_the_date_of_the_answer() {
        let until = (RETRY_AFTER, b"Sun, 06 Nov 1994 08:50:37 GMT".as_slice());
        let dated = |date: &'static str| [until.clone(), (DATE, date.as_bytes())];
        let half_past = dated("Sun, 06 Nov 1994 08:50:07 GMT");
        assert_eq!(asked(429, &half_past), Some(30));
        assert_eq!(asked(429, &dated("yesterday")), Some(60));
    }

    #[test]
    fn asked_wait_reads_rate_limit_of_refusals_and_on_request_of_any_answer() {
        let cases: &[(&str, Option<u64>)] = &[
            (r#""a";r=0;t=30"#, Some(30)),
            (r#""a";t=30;r=0"#, Some(30)),
            (r#""a"; r=0;  t=30"#, Some(30)),
            (r#""a";r=0;t=30;pk=:cGtleQ==:"#, Some(30)),
            (r#""a";r=0;t=30, "b";r=0;t=60, "c";r=1;t=90"#, Some(60)),
            (r#""a";r=0;t=60, "b";r=0"#, Some(60)),
            (r#""a";r=0;t=60, junk"#, Some(60)),
            (r#""a, \";r=1";r=0;t=5"#, Some(5)),
            (r#""r=0;t=30""#, None),
            (r#""r=0;t=30";r=1;t=30"#, None),
            (r#""a";r=1;r=0;t=8;t=9"#, Some(9)),
            (r#""a";r=0;r=1;t=9"#, None),
            (r#""a";r=0;t=999999999999999999999"#, Some(u64::MAX)),
            (r#""a";r=0"#, None),
            (r#""a";t=30"#, None),
            (r#""a";r=-0;t=30"#, None),
            (r#""a";r=0.0;t=30"#, None),
            (r#""a";r=0;t=-30"#, None),
            (r#""a";R=0;t=30"#, None),
            ("limit=100, remaining=0, reset=50", Some(50)),
            ("", None),
        ];
        for (value, expected) in cases {
            let field = &[(RATE_LIMIT, value.as_bytes())];
            for status in [200, 304, 403, 404, 429, 503] {
                assert_eq!(asked(status, field), *expected, "{value}");
            }
        }
        let lines = [
            (RATE_LIMIT, br#""a";r=0;t=30"#.as_slice()),
            (RATE_LIMIT, br#""b";r=0;t=20"#),
        ];
        assert_eq!(asked(200, &lines), Some(30));
    }

    #[test]
    fn asked_wait_prefers_retry_after_if_it_can_be_read() {
        let with = |value: &'static str| {
            let used_up = (RATE_LIMIT, br#""a";r=0;t=30"#.as_slice());
            [used_up, (RETRY_AFTER, value.as_bytes())]
        };
        assert_eq!(asked(429, &with("5")), Some(5));
        assert_eq!(asked(429, &with("soon")), Some(30));
        assert_eq!(asked(200, &with("5")), Some(30));
    }

    #[test]
    fn asked_wait_of_a_limit_of_another_unit_counts_in_refusals_alone() {
        let size = br#""size";q=65535;w=60;qu="content-bytes""#;
        let fields = [
            (HeaderName::from_static("ratelimit-policy"), size.as_slice()),
            (RATE_LIMIT, br#""size";r=0;t=30"#),
        ];
        assert_eq!(asked(429, &fields), Some(30));
        assert_eq!(asked(200, &fields), None);
        let name = |part| HeaderName::try_from(format!("x-ratelimit-{part}-tokens"));
        let [remaining, reset] = ["remaining", "reset"].map(|part| name(part).expect("a name"));
        let tokens = [(remaining, b"0".as_slice()), (reset, b"30s")];
        assert_eq!(asked(503, &tokens), Some(30));
        assert_eq!(asked(200, &tokens), None);
    }

    #[test]
    fn is_refusal_of_a_403_holds_if_it_asks_for_a_wait() {
        for (status, wait, expected) in [
            (403, None, false),
            (403, Some(Duration::ZERO), true),
            (429, None, true),
            (503, None, true),
            (200, Some(Duration::ZERO), false),
        ] {
            let code = StatusCode::from_u16(status).expect("a status");
            assert_eq!(is_refusal(code, wait), expected, "{status}");
        }
    }

    const WORDS: &str = "Sun, |Nov|Feb| |06|29|00|99|1994|2000|9999|:|08:49:37| GMT|Sunday|-|\"|a|;r=0|;t=|5|,|;|\\";

    #[test]
    fn asked_wait_of_random_fields_does_not_panic() {
        let words: Vec<_> = WORDS.split('|').collect();
        let (cases, mut next, mut read) = (cases(), numbers(), 0);
        for _ in 0..cases {
            let [until, date, left] = [(); 3].map(|()| value(&mut next, &words, 13));
            let fields: [(HeaderName, &[u8]); 3] =
                [(RETRY_AFTER, &until), (DATE, &date), (RATE_LIMIT, &left)];
            read += u64::from(asked(429, &fields).is_some());
            read += u64::from(asked(200, &fields).is_some());
        }
        // The test is meaningful only if enough cases are read.
        assert!(read > cases / 100, "only {read}");
    }
}
