//! The body of an answer, each piece of which may take as long as the answer itself.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use object_store::client::{HttpError, HttpResponseBody};

use super::{GivenUp, Grace};

/// A body that ends with [`GivenUp`] when the server does not go on with it in time.
pub(super) struct GracefulBody {
    body: HttpResponseBody,
    grace: Grace,
    removes_parts: bool,
    /// Completes when the piece that is waited for is given up.
    given_up: Option<Pin<Box<dyn Future<Output = GivenUp> + Send + Sync>>>,
}

impl GracefulBody {
    pub(super) fn new(body: HttpResponseBody, grace: Grace, removes_parts: bool) -> GracefulBody {
        GracefulBody {
            body,
            grace,
            removes_parts,
            given_up: None,
        }
    }
}

impl Body for GracefulBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.given_up = None;
            return Poll::Ready(frame);
        }
        let given_up = this.given_up.get_or_insert_with(|| {
            let (grace, removes_parts) = (this.grace.clone(), this.removes_parts);
            Box::pin(async move { grace.given_up(removes_parts).await })
        });
        let given_up = ready!(given_up.as_mut().poll(context));
        this.given_up = None;
        Poll::Ready(Some(Err(given_up.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Debug for GracefulBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GracefulBody").finish_non_exhaustive()
    }
}
