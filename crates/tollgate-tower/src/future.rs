//! The response future: the request enters the throttle, then the service responds.
//!
//! 1. The inner service is called after the request was admitted, and not before. A layer that
//!    rejects at once decides when it is called itself, which saves storing the request.
//! 2. However a stage ends, including with a panic, the work is dropped first and then the permit.
//! 3. The permit moves into the body of the response.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project::{pin_project, pinned_drop};
use tower_service::Service;

use super::Responses;
use super::entering::Entering;
use super::respond::Abandon;
use super::respond::Respond;
use tollgate::AcquireError;
use tollgate::throttle::Throttle;

/// The future of a [`ThrottleService`](super::ThrottleService).
///
/// # Cancel safety
///
/// Dropping the future removes the request from the queue, or drops the work on it and returns its
/// permit.
///
/// # Panics
///
/// Panics if it is polled again after completion.
#[pin_project(PinnedDrop)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct ResponseFuture<S: Service<R>, T: Throttle, R, A = Responses<T>> {
    #[pin]
    stage: Stage<S, T, R>,
    throttle: T,
    answers: A,
    /// What becomes of the permit if the future is dropped before the answer.
    abandon: Option<Abandon<T>>,
}

#[pin_project(project = StageProjection)]
enum Stage<S: Service<R>, T: Throttle, R> {
    /// The request enters the throttle. The service and the request are kept until the admission.
    Enters {
        #[pin]
        entering: Entering<T>,
        work: Option<(S, R)>,
    },
    /// The service responds. The fields are dropped in this order.
    Answered {
        #[pin]
        answer: S::Future,
        /// `Some` until the response is ready.
        permit: Option<T::Permit>,
    },
    Refused(Option<AcquireError>),
    Over,
}

impl<S, T, R, A> ResponseFuture<S, T, R, A>
where
    S: Service<R>,
    T: Throttle,
    A: Respond<T, S::Response, S::Error>,
{
    /// The request waits until the throttle admits it, and then calls the service.
    pub(super) fn waiting(entering: Entering<T>, work: (S, R), throttle: T, answers: A) -> Self {
        let work = Some(work);
        Self::new(Stage::Enters { entering, work }, throttle, answers)
    }

    /// The request was admitted, and the service was called.
    pub(super) fn admitted(permit: T::Permit, answer: S::Future, throttle: T, answers: A) -> Self {
        let permit = Some(permit);
        Self::new(Stage::Answered { answer, permit }, throttle, answers)
    }

    /// The request was rejected.
    pub(super) fn refused(error: AcquireError, throttle: T, answers: A) -> Self {
        Self::new(Stage::Refused(Some(error)), throttle, answers)
    }

    fn new(stage: Stage<S, T, R>, throttle: T, answers: A) -> Self {
        Self {
            stage,
            throttle,
            abandon: answers.abandon(),
            answers,
        }
    }
}

#[pinned_drop]
impl<S: Service<R>, T: Throttle, R, A> PinnedDrop for ResponseFuture<S, T, R, A> {
    fn drop(self: Pin<&mut Self>) {
        let mut this = self.project();
        let Some(abandon) = *this.abandon else {
            return;
        };
        if let StageProjection::Answered { permit, .. } = this.stage.as_mut().project() {
            let permit = permit.take();
            // The work is dropped before the permit.
            this.stage.set(Stage::Over);
            if let Some(permit) = permit {
                abandon(this.throttle, permit);
            }
        }
    }
}

impl<S, T, R, A> Future for ResponseFuture<S, T, R, A>
where
    S: Service<R>,
    T: Throttle,
    A: Respond<T, S::Response, S::Error>,
{
    type Output = Result<A::Response, A::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (mut stage, throttle) = (this.stage, &*this.throttle);
        if let StageProjection::Enters { entering, work } = stage.as_mut().project() {
            let entered = ready!(entering.poll(context));
            let work = work.take();
            // Drops the wait before anything else happens.
            stage.set(Stage::Over);
            match (entered, work) {
                (Ok(permit), Some((mut inner, request))) => {
                    let answer = inner.call(request);
                    let permit = Some(permit);
                    stage.set(Stage::Answered { answer, permit });
                }
                (Ok(_), None) => unreachable!("the request was not answered yet"),
                (Err(error), _) => return Poll::Ready(this.answers.refused(throttle, error)),
            }
        }
        let (answer, permit) = match stage.as_mut().project() {
            StageProjection::Answered { answer, permit } => (answer, permit),
            StageProjection::Refused(error) => {
                let error = error.take().expect("polled again after it was ready");
                return Poll::Ready(this.answers.refused(throttle, error));
            }
            _ => panic!("polled again after it was ready"),
        };
        let answered = ready!(answer.poll(context));
        let permit = permit.take();
        // The work is dropped before the permit.
        stage.set(Stage::Over);
        Poll::Ready(match (answered, permit) {
            (Ok(answer), Some(permit)) => Ok(this.answers.answered(throttle, permit, answer)),
            (Ok(_), None) => unreachable!("it was let in"),
            (Err(error), permit) => {
                if let Some(permit) = permit {
                    this.answers.erred(throttle, permit, &error);
                }
                Err(A::failed(error))
            }
        })
    }
}

impl<S: Service<R>, T: Throttle, R, A> fmt::Debug for ResponseFuture<S, T, R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Enters { .. } => "enters",
            Stage::Answered { .. } => "is answered",
            Stage::Refused(_) => "is refused",
            Stage::Over => "is over",
        };
        f.debug_struct("ResponseFuture")
            .field("stage", &stage)
            .finish_non_exhaustive()
    }
}
