//! [`Paused`]: the error of a call that a pause refuses.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderValue, Response, StatusCode};
use tollgate::time::Tick;

use super::origin::{Pause, PausedBy};

/// The error of a call that was not sent, because its origin is paused for longer than the call may wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    origin: Box<str>,
    remaining: Option<Duration>,
    by: PausedBy,
    status: StatusCode,
}

impl Paused {
    /// Creates the error for a call that is refused now: until a tick, or for an unknown time.
    pub(super) fn new(
        origin: impl Into<Box<str>>,
        pause: &Pause,
        until: Option<Tick>,
        now: Tick,
    ) -> Self {
        Self {
            origin: origin.into(),
            remaining: until.map(|until| match until.as_nanos() {
                u64::MAX => Duration::MAX,
                _ => until.saturating_since(now),
            }),
            by: pause.by,
            status: pause.status,
        }
    }

    /// Returns the origin that is paused.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the remaining time of the pause. It is unknown after the end of the pause, while the first requests are
    /// under way.
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Returns who asked for the pause.
    pub fn by(&self) -> PausedBy {
        self.by
    }

    /// Returns the status of the refusal that began the pause, or 503 if no server did.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns a response for the client of a proxy: the status of the refusal, and a `Retry-After` in whole seconds,
    /// rounded up, if the time is known.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_http::Pauses;
    ///
    /// let pauses = Pauses::new();
    /// pauses.pause("https://example.com:443", Duration::from_millis(1500));
    /// let paused = pauses.check("https://example.com:443").unwrap_err();
    /// let response: http::Response<String> = paused.into_response();
    /// assert_eq!(response.status(), 503);
    /// assert_eq!(response.headers()["retry-after"], "2");
    /// ```
    pub fn into_response<B: Default>(self) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = self.status;
        if let Some(remaining) = self.remaining {
            let part = u64::from(remaining.subsec_nanos() > 0);
            let seconds = remaining.as_secs().saturating_add(part);
            let value = HeaderValue::from(seconds.max(1));
            response.headers_mut().insert(RETRY_AFTER, value);
        }
        response
    }

    /// Returns the error of this type in a chain of errors, if there is one.
    pub fn in_chain<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut error = Some(error);
        while let Some(it) = error {
            if let Some(paused) = it.downcast_ref() {
                return Some(paused);
            }
            error = it.source();
        }
        None
    }
}

impl fmt::Display for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.by {
            PausedBy::Server => "the server asked for it",
            PausedBy::Guess => "the server refused a request",
            PausedBy::Caller => "the client asked for it",
            PausedBy::Full => "every place for a pause is taken",
        };
        let Self { origin, .. } = self;
        match self.remaining {
            Some(left) if self.by == PausedBy::Full => {
                write!(f, "requests to {origin} are refused for {left:?}: {why}")
            }
            None if self.by == PausedBy::Full => {
                write!(f, "requests to {origin} are refused: {why}")
            }
            Some(left) => write!(f, "requests to {origin} are paused for {left:?}: {why}"),
            None => write!(
                f,
                "requests to {origin} were paused, and the first ones since are not answered yet: {why}"
            ),
        }
    }
}

impl Error for Paused {}
