//! A request on its way: it enters, it is answered.
//!
//! 1. The service inside is called when the request was let in, and not before.
//! 2. Whatever ends a stage, a panic included, drops the work first and the permit then.
//! 3. The permit goes along with the answer, into its body.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Response, StatusCode};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::ThrottledBody;
use super::entering::Entering;
use super::refusal::refusal;
use crate::throttle::Throttle;

/// The future of a [`ThrottleService`](super::ThrottleService).
///
/// # Cancel safety
///
/// Dropping it takes the request out of the line, or drops the work on it and gives its permit back.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[pin_project]
#[must_use = "a future does nothing unless it is awaited"]
pub struct ResponseFuture<S: Service<R>, T: Throttle, R> {
    #[pin]
    stage: Stage<S, T, R>,
    /// Of a refusal after which the client may try again.
    status: StatusCode,
}

/// How far the request is.
#[pin_project(project = StageProjection)]
enum Stage<S: Service<R>, T: Throttle, R> {
    /// It enters. The service and the request are there until it was let in.
    Enters {
        #[pin]
        entering: Entering<T>,
        work: Option<(S, R)>,
    },
    /// It is being answered. Dropped in this order.
    Answered {
        #[pin]
        answer: S::Future,
        /// Until the answer is there.
        permit: Option<T::Permit>,
    },
    Over,
}

impl<S: Service<R>, T: Throttle, R> ResponseFuture<S, T, R> {
    pub(super) fn new(entering: Entering<T>, inner: S, request: R, status: StatusCode) -> Self {
        let work = Some((inner, request));
        Self {
            stage: Stage::Enters { entering, work },
            status,
        }
    }
}

impl<S, T, R, B> Future for ResponseFuture<S, T, R>
where
    S: Service<R, Response = Response<B>>,
    T: Throttle,
    B: Body,
{
    type Output = Result<Response<ThrottledBody<B, T::Permit>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut stage = this.stage;
        if let StageProjection::Enters { entering, work } = stage.as_mut().project() {
            let entered = ready!(entering.poll(context));
            let work = work.take();
            // The wait is over before anything else happens.
            stage.set(Stage::Over);
            match (entered, work) {
                (Ok(permit), Some((mut inner, request))) => {
                    let answer = inner.call(request);
                    let permit = Some(permit);
                    stage.set(Stage::Answered { answer, permit });
                }
                (Ok(_), None) => unreachable!("the request was not answered yet"),
                (Err(error), _) => return Poll::Ready(Ok(refusal(error, *this.status))),
            }
        }
        let StageProjection::Answered { answer, permit } = stage.as_mut().project() else {
            panic!("polled again after it was ready");
        };
        let answered = ready!(answer.poll(context));
        let permit = permit.take();
        // The work is dropped before the permit.
        stage.set(Stage::Over);
        Poll::Ready(match (answered, permit) {
            (Ok(answer), Some(permit)) => {
                Ok(answer.map(|body| ThrottledBody::holding(body, permit)))
            }
            (Ok(_), None) => unreachable!("it was let in"),
            (Err(error), _) => Err(error),
        })
    }
}

impl<S: Service<R>, T: Throttle, R> fmt::Debug for ResponseFuture<S, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Enters { .. } => "enters",
            Stage::Answered { .. } => "is answered",
            Stage::Over => "is over",
        };
        f.debug_struct("ResponseFuture")
            .field("stage", &stage)
            .finish_non_exhaustive()
    }
}
