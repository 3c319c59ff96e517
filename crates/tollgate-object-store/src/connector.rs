//! [`ThrottledConnector`]: puts every HTTP request of a store behind a throttle.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use tokio_util::sync::CancellationToken;
use tollgate::throttle::Adaptive;
use tollgate::wait::Waiting;
use tollgate::{RateLimiter, Throttle};
use tollgate_adaptive::{AdaptiveRate, RatePermit, Shared};
use tollgate_io::ThrottleIoExt;
use tollgate_tower::{ThrottledBody, feedback};

use crate::limits::{Admitted, Hold, Limits};

/// A connector that puts every HTTP request of a store behind a throttle.
///
/// Give it to the builder of a store in place of the connector that it wraps. It then counts each
/// request: every page of a list, every part of an upload, every retry, and the requests for tokens.
///
/// # Fairness
///
/// The throttle determines the order: requests are admitted in its order. A request first waits for the
/// throttle, then for the [bytes](Self::bytes_sent) that it sends, then for the [adaptive
/// rate](Self::adaptive). While it waits for the last two, it holds its permit of the throttle. Do not give a
/// cap of this connector to a [`Throttled`](crate::Throttled) above it: a call would wait for the permit that
/// it holds itself.
///
/// # Sharing
///
/// Clones, and all clients that they connect, share the limits: give clones to several stores to limit
/// them together. An option that is set on a clone applies only to this clone.
///
/// # Cancel safety
///
/// A request that is dropped while it waits leaves the queue, and its charges are refunded. Its bytes are
/// refunded only as far as time has not [paid them off](RateLimiter::refund). A request that is
/// dropped later releases its permit, but the charge for its bytes remains, because they may have
/// been sent.
///
/// # Errors
///
/// A request fails with [`WaitTooLong`](crate::WaitTooLong) after the [longest wait](Self::max_wait), and
/// with the throttle's [`AcquireError`](tollgate::AcquireError) if the throttle refuses it, for example
/// because it is closed. [`wait_too_long`](crate::wait_too_long) and [`cause`](crate::cause) find them in the
/// error of the store. The store does not retry such a request.
///
/// # Limitations
///
/// - All bytes of a request are charged before it is sent, because this crate does not poll the body of a
///   request. The bytes of a large part leave in one burst.
/// - A rate in the throttle limits admissions. Requests that have passed it and wait for bytes or for
///   the adaptive rate may reach the server closer together. Requests without a body overtake them.
/// - A redirect that the client follows by itself is not counted: if a request is redirected four
///   times, the server receives five. Wrap a client of your own that follows no redirects.
/// - A wait counts towards `RetryConfig::retry_timeout`, which is three minutes by default.
///   A request is signed before the wait, and S3 accepts the signature for 15 minutes.
/// - A server can answer `200` and report `SlowDown` in the body, after it has copied an object or
///   completed an upload. The adaptive rate does not see that.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use object_store::aws::AmazonS3Builder;
/// use object_store::client::ReqwestConnector;
/// use tollgate::{Quota, RateLimiter, Semaphore, all};
/// use tollgate_object_store::ThrottledConnector;
///
/// # fn main() -> object_store::Result<()> {
/// # rustls::crypto::ring::default_provider().install_default().unwrap();
/// let in_flight = Arc::new(Semaphore::new(16));
/// let requests = Arc::new(RateLimiter::new(Quota::per_second(500).burst(20)));
/// let upload = Arc::new(RateLimiter::new(Quota::bytes_per_second(10_000_000)));
///
/// let connector = ReqwestConnector::default();
/// let connector = ThrottledConnector::new(connector, all((in_flight, requests))).bytes_sent(upload);
/// let store = AmazonS3Builder::from_env()
///     .with_bucket_name("photos")
///     .with_http_connector(connector)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ThrottledConnector<C, T> {
    connector: C,
    limits: Limits<T>,
}

impl<C, T> ThrottledConnector<C, T>
where
    C: HttpConnector,
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    /// Puts the requests of `connector`'s clients behind a throttle.
    pub fn new(connector: C, throttle: T) -> Self {
        Self {
            connector,
            limits: Limits::new(throttle),
        }
    }

    /// Limits the bytes in the bodies of requests.
    ///
    /// A request is charged for its whole body before it is sent. Bodies wait in the queue of the limiter
    /// together with all its other callers, in the order in which the throttle admitted their requests. A request
    /// without a body is not charged, and does not wait for the bytes of others. The charge is refunded if
    /// the client reports that the connection was refused. A connection that timed out is not refunded.
    ///
    /// A body larger than the burst is sent when a burst is available, and overdraws the limiter by
    /// the rest: the bodies behind it wait until that is paid off. So the bytes sent in any interval are at most a
    /// burst, the rate times its length, and one more body, if requests are polled when they are woken. Requests
    /// that were granted a burst each before they are polled are sent together, and those behind them wait longer.
    ///
    /// Give the limiter a burst of some milliseconds, as
    /// [`Quota::bytes_per_second`](tollgate::Quota::bytes_per_second) does.
    #[must_use]
    pub fn bytes_sent(mut self, limiter: impl Into<Option<Arc<RateLimiter>>>) -> Self {
        self.limits.sent = limiter.into();
        self
    }

    /// Limits the bytes in the bodies of successful responses.
    ///
    /// Give the limiter a burst of some milliseconds, as
    /// [`Quota::bytes_per_second`](tollgate::Quota::bytes_per_second) does. A body is read in pieces of at
    /// most a burst, so a burst of 1 yields frames of one byte, and cannot reach a high rate. If large bodies are
    /// sent, use another limiter than that of [`bytes_sent`](Self::bytes_sent): in a common
    /// queue a whole body and a piece of 10 ms take turns. Next to four tasks that put 8 MB each at 10 MB/s, a
    /// reader gets 1.9 MB in a minute.
    ///
    /// A body is [charged](tollgate_io) while it is read, for exactly the bytes read. It keeps its permit
    /// meanwhile. If the limiter is closed, open bodies fail, and so do new requests.
    ///
    /// The timeout of the client includes the time in which a body is read. `object_store` sets 30 seconds for a
    /// whole response: at 1 MB/s this timeout ends a body of more than 30 MB, and the store requests the rest as
    /// often as its `RetryConfig` allows. Set a longer one with `ClientOptions::with_timeout`.
    ///
    /// Give the limiter no `max_waiters`: a store retries a request whose body failed. It would also retry
    /// after the limiter refused a body, so that [`cause`](crate::cause) may find nothing.
    #[must_use]
    pub fn bytes_received(mut self, limiter: impl Into<Option<Arc<RateLimiter>>>) -> Self {
        self.limits.received = limiter.into();
        self
    }

    /// Limits the rate of requests to the rate that the server accepts, as found from its refusals.
    ///
    /// A response with the status 429, 503 or 504 is a refusal, and `Retry-After` of the first two
    /// pauses all requests. A request without an answer is ignored.
    ///
    /// All servers that the connector reaches share one rate. A refusal by a token server, such
    /// as the instance metadata service, also cuts and pauses the requests to the bucket. To keep them apart, give
    /// the store a provider of credentials that uses another connector.
    #[must_use]
    pub fn adaptive(mut self, rate: Arc<AdaptiveRate>) -> Self {
        self.limits.adaptive = Some(Shared(rate));
        self
    }

    /// Sets how long a request holds its permit. The default is [`Hold::Body`].
    ///
    /// A response that reports a failure releases its permit when up to 64 KiB of its body have been
    /// read, or after a second, so that no permit is held while the store waits before it retries the request.
    #[must_use]
    pub fn hold(mut self, hold: Hold) -> Self {
        self.limits.hold = hold;
        self
    }

    /// Sets the longest wait of a request, for all of its limits together. The default is 120 seconds.
    ///
    /// `Duration::MAX` waits without end. At the limiter of [sent bytes](Self::bytes_sent), all bodies sent
    /// before must be paid off within this wait: by default, 120 MB at 1 MB/s. The limit does not cover
    /// reading the body of a response.
    #[must_use]
    pub fn max_wait(mut self, max: Duration) -> Self {
        self.limits.max_wait = max;
        self
    }

    /// Ends all waits with [`Cancelled`](tollgate::ErrorKind::Cancelled) when `token` is cancelled.
    ///
    /// Admitted requests are not affected, and neither are the waits of open bodies for
    /// [received bytes](Self::bytes_received): closing that limiter ends these waits. Later requests fail
    /// at once. That
    /// includes `MultipartUpload::abort`, so the parts of such an upload stay on the server until a
    /// rule of the bucket removes them. To abort it, begin it with `MultipartStore::create_multipart`, which
    /// returns its id, and call `abort_multipart` of another store, made with a clone of the connector
    /// that has no token.
    #[must_use]
    pub fn cancel_on(mut self, token: CancellationToken) -> Self {
        self.limits.token = Some(token);
        self
    }
}

impl<C, T> HttpConnector for ThrottledConnector<C, T>
where
    C: HttpConnector,
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service {
            client: self.connector.connect(options)?,
            limits: self.limits.clone(),
        }))
    }
}

impl<C: fmt::Debug, T> fmt::Debug for ThrottledConnector<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottledConnector")
            .field("connector", &self.connector)
            .field("limits", &self.limits)
            .finish()
    }
}

// [`Service`]: puts each HTTP request of a store behind its limits.
//
// 1. The permit is released in the poll that yields the end of the body or its failure, before the
//    caller can request the rest with another request.
// 2. A response without success releases its permit before it is returned: `object_store` keeps
//    such a response while it sleeps before a retry. Its body is read first.
// 3. No lock is held across an await; the lock around a permit only makes it `Sync`.

/// The maximum number of bytes read from the body of a response that reports a failure.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The longest wait for such a body. The permit is held meanwhile.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(1);

/// A client behind limits.
pub(crate) struct Service<T> {
    pub(crate) client: HttpClient,
    pub(crate) limits: Limits<T>,
}

impl<T> HttpService for Service<T>
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    // The signature is that of `async_trait`, without its second copy of the request: the future must be small
    // enough for the allocator's readily available sizes.
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let limits = &self.limits;
            // `HttpRequestBody::is_empty` returns the opposite for a payload.
            let length = u64::try_from(request.body().content_length()).unwrap_or(u64::MAX);
            let admitted = limits.admit(length).await;
            let Admitted { permit, rate, sent } =
                admitted.map_err(|error| HttpError::new_boxed(HttpErrorKind::Unknown, error))?;
            let rate = InFlight(rate);
            let response = match self.client.execute(request).await {
                Ok(response) => response,
                Err(error) => {
                    if error.kind() == HttpErrorKind::Connect {
                        limits.refund(sent);
                    }
                    return Err(error);
                }
            };
            rate.answered(limits.adaptive.as_ref(), &response);

            let (parts, mut body) = response.into_parts();
            let is_success = parts.status.is_success();
            if let Some(limited) = limits.received.as_ref().filter(|_| is_success) {
                body = charging(body, limited);
            }
            let body = match limits.hold {
                Hold::Head => {
                    drop(permit);
                    body
                }
                Hold::Body if is_success => {
                    let held = Mutex::new(limits.held(permit));
                    HttpResponseBody::new(ThrottledBody::holding(body, Some(held)))
                }
                // The future is boxed, since most requests do not need it.
                Hold::Body => Box::pin(read_error_body(body)).await,
            };
            Ok(HttpResponse::from_parts(parts, body))
        })
    }
}

impl<T> fmt::Debug for Service<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("client", &self.client)
            .field("limits", &self.limits)
            .finish()
    }
}

/// The permit of an adaptive rate while its request is in flight. The rate ignores a request that is dropped,
/// or that the server did not answer.
struct InFlight(Option<RatePermit<Shared<AdaptiveRate>>>);

impl InFlight {
    fn answered(mut self, rate: Option<&Shared<AdaptiveRate>>, response: &HttpResponse) {
        if let (Some(rate), Some(mut permit)) = (rate, self.0.take()) {
            rate.learn(&mut permit, feedback(response));
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.ignore();
        }
    }
}

/// Charges for the bytes that are read from a body.
fn charging(body: HttpResponseBody, received: &Arc<RateLimiter>) -> HttpResponseBody {
    let body = body.throttled(Arc::clone(received));
    HttpResponseBody::new(body.map_err(|error| match error.downcast::<HttpError>() {
        Ok(error) => *error,
        Err(error) => HttpError::new_boxed(HttpErrorKind::Unknown, error),
    }))
}

/// Reads the body of a response that reports a failure, for at most [`ERROR_BODY_WAIT`]. The body explains the
/// failure. If reading fails, the returned body fails after the bytes that could be read.
async fn read_error_body(mut body: HttpResponseBody) -> HttpResponseBody {
    let mut read = BytesMut::new();
    let reading = async {
        while let Some(frame) = body.frame().await {
            let data = match frame {
                Ok(frame) => frame.into_data().unwrap_or_default(),
                Err(error) => return Ok(Some(error)),
            };
            let room = MAX_ERROR_BODY - read.len();
            read.extend_from_slice(&data[..data.len().min(room)]);
            if read.len() == MAX_ERROR_BODY {
                break;
            }
        }
        Ok(None)
    };
    let failed = Waiting::new(reading).timeout(ERROR_BODY_WAIT).await;
    // The store parses it as UTF-8, so an incomplete character would hide the rest.
    if let Err(error) = std::str::from_utf8(&read)
        && error.error_len().is_none()
    {
        read.truncate(error.valid_up_to());
    }
    let read: Bytes = read.freeze();
    match failed {
        Ok(Some(error)) => {
            let frames = [Ok(http_body::Frame::data(read)), Err(error)];
            HttpResponseBody::new(StreamBody::new(stream::iter(frames)))
        }
        _ => read.into(),
    }
}
