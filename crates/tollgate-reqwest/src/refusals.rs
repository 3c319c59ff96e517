//! [`Refusals`]: refusals that ask for a wait in their body, which is read and handed on.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use reqwest::{Body, Response};
use tollgate_http::{ResponseClass, asked_wait};

use crate::throttle::with_body;

/// The most that is read of a body.
const MAX_READ: usize = 64 * 1024;

/// How refusals ask for a wait in their body, for [`PausesMiddleware`](crate::PausesMiddleware::refusals).
///
/// At most 64 KiB of a body are read, before the response is returned or the request is repeated. The caller gets the
/// whole body all the same. A body that stalls is waited for, within the timeouts of reqwest. Until it has been read, the
/// request holds its permit, and the server is not paused.
#[derive(Clone)]
pub struct Refusals {
    reads: Arc<Reads>,
    wait: Arc<WaitOf>,
}

type Reads = dyn Fn(StatusCode, &HeaderMap) -> bool + Send + Sync;
type WaitOf = dyn Fn(&[u8]) -> Option<Duration> + Send + Sync;

impl Refusals {
    /// Reads the body of responses with such a head, and takes from it how long the server asks to wait. If it does, the
    /// response is a refusal, also with a status of 200. Without a wait, or with one of zero, its head decides.
    ///
    /// # Examples
    ///
    /// Telegram's bots have the wait in the body of a 429:
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use serde::Deserialize;
    /// use tollgate_reqwest::{Pauses, PausesMiddleware, Refusals};
    ///
    /// #[derive(Deserialize)]
    /// struct Refusal {
    ///     parameters: Parameters,
    /// }
    ///
    /// #[derive(Deserialize)]
    /// struct Parameters {
    ///     retry_after: u64,
    /// }
    ///
    /// let telegram = Refusals::by_body(
    ///     |status, _| status == 429,
    ///     |body| {
    ///         let refusal: Refusal = serde_json::from_slice(body).ok()?;
    ///         Some(Duration::from_secs(refusal.parameters.retry_after))
    ///     },
    /// );
    /// let middleware = PausesMiddleware::new(Pauses::new()).refusals(telegram);
    /// ```
    pub fn by_body(
        reads: impl Fn(StatusCode, &HeaderMap) -> bool + Send + Sync + 'static,
        wait: impl Fn(&[u8]) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        Self {
            reads: Arc::new(reads),
            wait: Arc::new(wait),
        }
    }

    /// Understands the secondary limits of GitHub: a 403 or 429 whose body speaks of a secondary rate limit asks for a
    /// minute, unless its head [asks for a wait](tollgate_http::asked_wait), [as GitHub documents]. A 403 for a right that
    /// is missing has the same fields, and pauses nobody.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_reqwest::{Pauses, PausesMiddleware, Refusals};
    ///
    /// let middleware = PausesMiddleware::new(Pauses::new()).refusals(Refusals::github());
    /// ```
    ///
    /// [as GitHub documents]: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
    pub fn github() -> Self {
        const WORDS: &[u8] = b"secondary rate limit";
        Self::by_body(
            |status, headers| {
                let asked = || asked_wait(status, headers, SystemTime::now);
                let is_unknown = || asked().is_none_or(|wait| wait.is_zero());
                matches!(status.as_u16(), 403 | 429) && is_unknown()
            },
            |body| {
                let is_secondary = |part: &[u8]| part.eq_ignore_ascii_case(WORDS);
                let is_secondary = body.windows(WORDS.len()).any(is_secondary);
                is_secondary.then_some(Duration::from_secs(60))
            },
        )
    }

    /// Reads the body of a response, if that may ask for a wait. Returns the response with its whole body, and its class,
    /// which is that of its head without such a wait.
    pub(crate) async fn read(
        &self,
        response: Response,
        class: ResponseClass,
    ) -> (Response, ResponseClass) {
        if !(self.reads)(response.status(), response.headers()) {
            return (response, class);
        }
        let (response, mut body) = with_body(response);
        let (mut read, mut last) = (Vec::new(), None);
        while read.len() < MAX_READ && last.is_none() {
            let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
            match frame.map(|frame| frame.map(Frame::into_data)) {
                None => break,
                Some(Ok(Ok(data))) => read.extend_from_slice(&data),
                Some(Ok(Err(trailers))) => last = Some(Ok(trailers)),
                Some(Err(error)) => last = Some(Err(error)),
            }
        }
        let wait = (self.wait)(&read[..read.len().min(MAX_READ)]);
        let asked = wait.filter(|wait| !wait.is_zero());
        let class = asked.map_or(class, |_| ResponseClass::Refused(asked));
        let data = Some(read).filter(|read| !read.is_empty()).map(Data::from);
        let response = response(Body::wrap(Read { data, last, body }));
        (response, class)
    }
}

impl fmt::Debug for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusals").finish_non_exhaustive()
    }
}

type Data = <Body as HttpBody>::Data;

/// A body whose beginning was read.
struct Read {
    data: Option<Data>,
    /// The trailers or the error after the data, if they were read, too.
    last: Option<Result<Frame<Data>, reqwest::Error>>,
    body: Body,
}

impl HttpBody for Read {
    type Data = Data;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Data>, reqwest::Error>>> {
        let data = self.data.take().map(|data| Ok(Frame::data(data)));
        match data.or_else(|| self.last.take()) {
            Some(frame) => Poll::Ready(Some(frame)),
            None => Pin::new(&mut self.body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.last.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.data.as_ref().map_or(0, |data| data.len() as u64);
        let rest = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(read.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper() {
            hint.set_upper(read.saturating_add(upper));
        }
        hint
    }
}
