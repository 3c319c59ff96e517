//! How long requests that are under way may take after Ctrl-C.
//!
//! 1. A request that is under way when the job is cancelled is given up after [`GRACE`], and one that
//!    begins later, such as one that reads back, after as long. Each piece of the body of an answer
//!    may take as long again.
//! 2. Once one was given up, the server counts as silent: no other request is waited for, except those
//!    that remove the parts of multipart uploads. They have [`REMOVAL`], all together.
//!
//! So the job ends within the sum of the two if the server says nothing at all, and takes its time
//! with one that answers.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use object_store::client::{HttpError, HttpErrorKind, HttpResponseBody};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// How long an answer, or a piece of its body, may take after the job was cancelled.
pub const GRACE: Duration = Duration::from_secs(10);

/// How long those that remove parts may take after another request was given up.
pub const REMOVAL: Duration = Duration::from_secs(5);

/// Gives requests up. Clones do so together.
#[derive(Clone, Debug)]
pub(crate) struct Grace {
    cancelled: CancellationToken,
    /// Cancelled when the first request is given up.
    silent: CancellationToken,
    /// When that was.
    since: Arc<OnceLock<Instant>>,
}

impl Grace {
    /// Begins when the token is cancelled.
    pub(crate) fn after(cancelled: &CancellationToken) -> Grace {
        Grace {
            cancelled: cancelled.clone(),
            silent: CancellationToken::new(),
            since: Arc::default(),
        }
    }

    /// Is cancelled when nothing is waited for any more.
    pub(crate) fn silent(&self) -> &CancellationToken {
        &self.silent
    }

    /// Waits for an answer, or for a piece of one, as long as it may take.
    ///
    /// # Errors
    ///
    /// [`GivenUp`], after which the store does not repeat a request.
    pub(crate) async fn answer<R, E: From<GivenUp>>(
        &self,
        removes_parts: bool,
        answer: impl Future<Output = Result<R, E>>,
    ) -> Result<R, E> {
        tokio::select! {
            biased;
            answer = answer => answer,
            given_up = self.given_up(removes_parts) => Err(given_up.into()),
        }
    }

    /// Waits for each piece of a body as long as it may take.
    pub(crate) fn body(&self, removes_parts: bool, body: HttpResponseBody) -> HttpResponseBody {
        HttpResponseBody::new(GracefulBody::new(body, self.clone(), removes_parts))
    }

    /// Completes when what is waited for from now on is given up.
    async fn given_up(&self, removes_parts: bool) -> GivenUp {
        let late = async {
            self.cancelled.cancelled().await;
            sleep(GRACE).await;
        };
        let silent = async {
            self.silent.cancelled().await;
            match self.since.get() {
                Some(since) if removes_parts => {
                    sleep_until(*since + REMOVAL).await;
                    REMOVAL
                }
                // As long as the one that was given up.
                _ => GRACE,
            }
        };
        let within = tokio::select! {
            biased;
            within = silent => within,
            () = late => GRACE,
        };
        self.since.get_or_init(Instant::now);
        self.silent.cancel();
        GivenUp {
            removes_parts,
            within,
        }
    }
}

/// A request that was not answered in time after Ctrl-C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenUp {
    removes_parts: bool,
    /// How long the server had.
    within: Duration,
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.removes_parts {
            "remove the parts"
        } else {
            "answer"
        };
        let seconds = self.within.as_secs();
        write!(
            f,
            "after Ctrl-C, the server did not {what} within {seconds} s"
        )
    }
}

impl Error for GivenUp {}

impl From<GivenUp> for HttpError {
    fn from(given_up: GivenUp) -> HttpError {
        HttpError::new(HttpErrorKind::Unknown, given_up)
    }
}

impl From<GivenUp> for object_store::Error {
    fn from(given_up: GivenUp) -> object_store::Error {
        object_store::Error::Generic {
            store: "S3",
            source: Box::new(given_up),
        }
    }
}

// The body of an answer, each piece of which may take as long as the answer itself.

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
