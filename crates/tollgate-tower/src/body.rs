//! Attaches the permit of a request to the body of its response.
//!
//! 1. The permit lives as long as the body, and is dropped after it.
//! 2. Both are dropped as soon as the body is known to have ended.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project::pin_project;

/// The body of a response that went through a throttle: the body of the inner service, which holds
/// the permit until it ends, fails, or is dropped. The body of a rejection is empty, or a [JSON
/// problem](super::RejectionFormat::ProblemJson).
///
/// After a failure the body yields nothing more.
///
/// # Examples
///
/// A handler holds its permit until the end of its response:
///
/// ```
/// use std::sync::Arc;
///
/// use axum::Router;
/// use axum::body::Body;
/// use axum::http::Request;
/// use axum::routing::get;
/// use http_body_util::BodyExt;
/// use tollgate::Semaphore;
/// use tollgate_tower::ThrottleLayer;
/// use tower::ServiceExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let slots = Arc::new(Semaphore::new(1));
/// let lines = async || {
///     let lines = [Ok::<_, axum::Error>("1\n"), Ok("2\n")];
///     Body::from_stream(futures::stream::iter(lines))
/// };
/// let app = Router::new()
///     .route("/", get(lines))
///     .layer(ThrottleLayer::new(Arc::clone(&slots)));
///
/// let mut body = app.oneshot(Request::new(Body::empty())).await?.into_body();
/// for _ in 0..2 {
///     assert!(body.frame().await.is_some());
///     assert_eq!(slots.available_permits(), 0);
/// }
/// assert!(body.frame().await.is_none());
/// assert_eq!(slots.available_permits(), 1);
/// # Ok(())
/// # }
/// ```
#[pin_project]
pub struct ThrottledBody<B, P>(#[pin] State<B, P>);

#[pin_project(project = StateProjection)]
enum State<B, P> {
    /// The fields are dropped in this order.
    Sending {
        #[pin]
        body: B,
        _permit: Option<P>,
    },
    /// The text of a rejection.
    Text(String),
    /// The body has ended; the size hint remains. A body may have ended from the beginning and still have a
    /// size hint, like the body of a response to `HEAD`.
    Over(SizeHint),
}

impl<B, P> ThrottledBody<B, P> {
    /// Creates the body of a rejection.
    pub(super) fn text(text: String) -> Self {
        Self(if text.is_empty() {
            State::Over(SizeHint::with_exact(0))
        } else {
            State::Text(text)
        })
    }
}

impl<B: Body<Data: From<String>>, P> ThrottledBody<B, P> {
    /// Creates a body that holds a permit, if there is one. [`ThrottleLayer`](super::ThrottleLayer)
    /// does this for the responses of its service. A client can do it for the responses that it receives.
    pub fn holding(body: B, permit: Option<P>) -> Self {
        // The permit is moved into a body first, so that it is also dropped last if one of the calls
        // below panics.
        let sending = Self(State::Sending {
            body,
            _permit: permit,
        });
        if sending.is_end_stream() {
            Self(State::Over(sending.size_hint()))
        } else {
            sending
        }
    }
}

impl<B: Body<Data: From<String>>, P> Body for ThrottledBody<B, P> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut state = self.project().0;
        let mut body = match state.as_mut().project() {
            StateProjection::Sending { body, .. } => body,
            StateProjection::Text(text) => {
                let data = B::Data::from(std::mem::take(text));
                state.set(State::Over(SizeHint::with_exact(0)));
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            StateProjection::Over(_) => return Poll::Ready(None),
        };
        let frame = ready!(body.as_mut().poll_frame(context));
        let over = match &frame {
            Some(Ok(_)) => body.is_end_stream(),
            Some(Err(_)) | None => true,
        };
        if over {
            state.set(State::Over(SizeHint::with_exact(0)));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Sending { body, .. } => body.is_end_stream(),
            State::Text(_) => false,
            State::Over(_) => true,
        }
    }

    #[allow(clippy::clone_on_copy, reason = "it is `Copy` from http-body 1.1")]
    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Sending { body, .. } => body.size_hint(),
            State::Text(text) => SizeHint::with_exact(text.len() as u64),
            State::Over(size) => size.clone(),
        }
    }
}

impl<B: fmt::Debug, P> fmt::Debug for ThrottledBody<B, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = match &self.0 {
            State::Sending { body, .. } => Some(body),
            State::Text(_) | State::Over(_) => None,
        };
        f.debug_tuple("ThrottledBody").field(&body).finish()
    }
}
