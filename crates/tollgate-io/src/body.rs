//! Limits bodies of HTTP messages.
//!
//! 1. The size of a frame is known only after it has been polled. The part of a frame above its charge
//!    is the rest. It is yielded in pieces, and each piece is charged first. `Bytes` are not copied.
//! 2. The inner body is not polled while there is a rest, so at most one frame is kept.
//! 3. Trailers and the end of a body are free.

use std::error::Error;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

use super::throttled::{Directions, Throttled};
use tollgate::throttle::Weighted;

type BoxError = Box<dyn Error + Send + Sync>;

/// Yields data frames of at most one chunk each; a larger frame is split.
///
/// # Errors
///
/// Returns the error of the inner body, or the [`AcquireError`](tollgate::AcquireError) of the limiter. Both are boxed
/// unchanged, and can be downcast.
///
/// # Examples
///
/// ```
/// use http_body_util::{BodyExt, Full};
/// use hyper::body::Bytes;
/// use tollgate_io::ThrottleIoExt;
/// use tollgate::{Clock, Quota, RateLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let limiter = RateLimiter::new(Quota::per_second(1000).burst(1000)).clock(Clock::manual());
/// let mut body = Full::<Bytes>::from("six bytes more").throttled(&limiter).chunk(8);
///
/// let frame = body.frame().await.ok_or("a frame")??;
/// assert_eq!(frame.data_ref().map(|data| &data[..]), Some(&b"six byte"[..]));
/// assert_eq!(limiter.snapshot().available, 1000 - 8);
/// assert_eq!(body.collect().await?.to_bytes(), "s more");
/// assert_eq!(limiter.snapshot().available, 1000 - 14);
/// # Ok(())
/// # }
/// ```
impl<B: Body<Error: Into<BoxError>>, T: Weighted> Body for Throttled<B, T> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let mut this = self.project();
        if *this.directions == Directions::Writes {
            if !this.rest.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(mem::take(this.rest)))));
            }
            let polled = ready!(this.inner.poll_frame(context));
            return Poll::Ready(polled.map(|frame| frame.map(in_bytes).map_err(Into::into)));
        }
        loop {
            let wanted = match this.rest.len() {
                0 => match this.inner.size_hint().upper() {
                    Some(upper) => upper,
                    None if this.inner.is_end_stream() => 0,
                    None => u64::MAX,
                },
                rest => rest as u64,
            };
            // A body without more data may still have trailers, which are free.
            let entered = if wanted > 0 {
                let turn = this.read.as_mut();
                match ready!(turn.poll_enter(context, this.limiter, *this.chunk, wanted)) {
                    Ok(entered) => Some(entered),
                    Err(error) => return Poll::Ready(Some(Err(error.into()))),
                }
            } else {
                None
            };
            // Every return before the last one drops the permit, which gives the units back.
            if this.rest.is_empty() {
                let polled = this.inner.as_mut().poll_frame(context);
                let frame = match ready!(polled) {
                    Some(Ok(frame)) => in_bytes(frame),
                    Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                    None => return Poll::Ready(None),
                };
                match frame.into_data() {
                    Ok(data) if !data.is_empty() => *this.rest = data,
                    Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                }
            }
            // Without a charge, the size hint was wrong, and the frame must be charged now.
            if let Some((entered, units)) = entered {
                let units = usize::try_from(units).unwrap_or(usize::MAX);
                let piece = this.rest.split_to(units.min(this.rest.len()));
                entered.settle(piece.len() as u64);
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper().and_then(|upper| upper.checked_add(rest)) {
            hint.set_upper(upper);
        }
        hint
    }
}

/// Returns a frame with its data in one piece.
fn in_bytes(frame: Frame<impl Buf>) -> Frame<Bytes> {
    frame.map_data(|mut data| data.copy_to_bytes(data.remaining()))
}
