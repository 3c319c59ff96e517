//! Limits how long requests in flight may take after Ctrl-C.
//!
//! 1. A request that is in flight when the job is cancelled is abandoned after [`GRACE`]. A request that
//!    begins later, such as one that reads back, is abandoned after the same time. Each piece of the
//!    body of an answer may again take that long.
//! 2. After the first abandoned request, the server counts as silent. The job waits for no other request,
//!    except those that remove the parts of multipart uploads. These have [`REMOVAL`] in total.
//!
//! So the job ends within the sum of the two if the server does not respond at all. With a server that
//! responds, the job takes the time that it needs.

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

/// The longest time that an answer, or a piece of its body, may take after the job was cancelled.
pub const GRACE: Duration = Duration::from_secs(10);

/// The total time for removing parts after another request was abandoned.
pub const REMOVAL: Duration = Duration::from_secs(5);

/// Abandons late requests. Clones share this state.
#[derive(Clone, Debug)]
pub(crate) struct Grace {
    cancelled: CancellationToken,
    /// A token that is cancelled when the first request is abandoned.
    silent: CancellationToken,
    /// The time at which the first request was abandoned.
    since: Arc<OnceLock<Instant>>,
}

impl Grace {
    /// Makes a limit that starts when the token is cancelled.
    pub(crate) fn after(cancelled: &CancellationToken) -> Grace {
        Grace {
            cancelled: cancelled.clone(),
            silent: CancellationToken::new(),
            since: Arc::default(),
        }
    }

    /// Returns a token that is cancelled when the job stops waiting for answers.
    pub(crate) fn silent(&self) -> &CancellationToken {
        &self.silent
    }

    /// Waits for an answer, or for a piece of one, within the allowed time.
    ///
    /// # Errors
    ///
    /// Returns [`GivenUp`] after that time. The store does not retry a request after this error.
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

    /// Limits the time of each piece of a body.
    pub(crate) fn body(&self, removes_parts: bool, body: HttpResponseBody) -> HttpResponseBody {
        HttpResponseBody::new(GracefulBody::new(body, self.clone(), removes_parts))
    }

    /// Completes when a wait that starts now must be abandoned.
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
                // This is the time that the abandoned request had.
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

/// The error of a request that was not answered in time after Ctrl-C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenUp {
    removes_parts: bool,
    /// The time that the server had.
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

// The body of an answer. Each piece may take as long as the answer itself.

/// A body that ends with [`GivenUp`] if the next piece does not arrive in time.
pub(super) struct GracefulBody {
    body: HttpResponseBody,
    grace: Grace,
    removes_parts: bool,
    /// Completes when the current piece must be abandoned.
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
