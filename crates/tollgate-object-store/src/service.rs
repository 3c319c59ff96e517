//! [`Service`]: one HTTP request of a store, behind its limits.
//!
//! 1. The permit goes back in the poll that yields the end of the body or its failure, before the
//!    caller can ask for the rest with another request.
//! 2. A response that is no success gives its permit back before it is returned: `object_store` keeps
//!    such a response while it sleeps before it repeats the request. Its body is read first.
//! 3. No lock is held across an await; the one around a permit only makes it `Sync`.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use tollgate::adaptive::{AdaptiveRate, RatePermit};
use tollgate::throttle::Adaptive;
use tollgate::{RateLimiter, Throttle, Waiting};
use tollgate_io::ThrottleIoExt;
use tollgate_tower::{ThrottledBody, feedback};

use crate::limits::{Admitted, Hold, Limits};

/// The most that is read of the body of a response that reports a failure.
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
    // As `async_trait` writes it, without its second copy of the request: the future is to be smaller than
    // what an allocator has at hand.
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
            // `HttpRequestBody::is_empty` answers the opposite for a payload.
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
                // Boxed, since most requests have no need for it.
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

/// The permit of an adaptive rate while its request is under way. A request that is dropped, or that
/// the server did not answer, is ignored by the rate.
struct InFlight(Option<RatePermit<Arc<AdaptiveRate>>>);

impl InFlight {
    fn answered(mut self, rate: Option<&Arc<AdaptiveRate>>, response: &HttpResponse) {
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

/// Charges for what is read of a body.
fn charging(body: HttpResponseBody, received: &Arc<RateLimiter>) -> HttpResponseBody {
    let body = body.throttled(Arc::clone(received));
    HttpResponseBody::new(body.map_err(|error| match error.downcast::<HttpError>() {
        Ok(error) => *error,
        Err(error) => HttpError::new_boxed(HttpErrorKind::Unknown, error),
    }))
}

/// Reads the body of a response that reports a failure, which explains why, for [`ERROR_BODY_WAIT`] at most.
/// If it fails, the body that is returned fails after what could be read.
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
    // The store reads it as UTF-8, so that an incomplete character would hide the rest.
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
