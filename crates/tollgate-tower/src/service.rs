//! The service behind the throttle, and its response future: the request enters the throttle, then the
//! inner service responds.
//!
//! 1. The inner service is called only after the request was admitted. A layer that
//!    rejects at once decides when it is called itself, which saves storing the request.
//! 2. However a stage ends, including with a panic, the work is dropped first and then the permit.
//! 3. The permit moves into the body of the response.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project::{pin_project, pinned_drop};
use tower_service::Service;

use super::choose::Choose;
use super::respond::Respond;
use super::{Responses, ThrottleLayer};
use tollgate::wait::{Timeout, Waiting};
use tollgate::{AcquireError, Throttle};

/// A service behind a throttle, created by a [`ThrottleLayer`]. Clones share the throttle.
///
/// It is ready when the inner service is ready. The response future enters the throttle, so a ready
/// service, and a future that was never polled, hold no permit. A layer that rejects at once decides
/// when the service is called.
#[derive(Debug)]
pub struct ThrottleService<S, T: Throttle, F = T, A = Responses<T>> {
    pub(super) inner: S,
    /// Shared, because servers clone the service for each request.
    pub(super) layer: Arc<ThrottleLayer<T, F, A>>,
}

impl<S, T, F, A, R> Service<R> for ThrottleService<S, T, F, A>
where
    S: Service<R> + Clone,
    T: Throttle,
    F: Choose<R, T>,
    A: Respond<T, S::Response, S::Error>,
{
    type Response = A::Response;
    type Error = A::Error;
    type Future = ResponseFuture<S, T, R, F, A>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), A::Error>> {
        self.inner.poll_ready(context).map_err(A::failed)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let chosen = self.layer.choose.choose(&request);
        let layer = Arc::clone(&self.layer);
        if let Some(try_enter) = layer.try_enter {
            return match try_enter(layer.choose.throttle(&chosen)) {
                Ok(permit) => ResponseFuture {
                    stage: Stage::Answered {
                        answer: self.inner.call(request),
                        permit: Some(permit),
                    },
                    chosen,
                    layer,
                },
                Err(error) => ResponseFuture {
                    stage: Stage::Refused(Some(error)),
                    chosen,
                    layer,
                },
            };
        }
        let enter = layer.choose.throttle(&chosen).enter();
        // The ready service moves into the future; the clone need not be ready.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let wait = match layer.timeout {
            None => Wait::Unbounded(enter),
            Some(duration) => Wait::Bounded(enter.timeout(duration)),
        };
        let work = Some((inner, request));
        ResponseFuture {
            stage: Stage::Enters { wait, work },
            chosen,
            layer,
        }
    }
}

impl<S: Clone, T: Throttle, F, A> Clone for ThrottleService<S, T, F, A> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            layer: Arc::clone(&self.layer),
        }
    }
}

/// The future of a [`ThrottleService`]. It has the same type parameters, and the request's type `R`.
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
pub struct ResponseFuture<S, T, R, F = T, A = Responses<T>>
where
    S: Service<R>,
    T: Throttle,
    F: Choose<R, T>,
    A: Respond<T, S::Response, S::Error>,
{
    #[pin]
    stage: Stage<S, T, R>,
    /// The throttle of the request. It is empty if the layer has the throttle, which then needs no clone.
    chosen: F::Chosen,
    layer: Arc<ThrottleLayer<T, F, A>>,
}

#[pin_project(project = StageProjection)]
enum Stage<S: Service<R>, T: Throttle, R> {
    /// The request enters the throttle. The service and the request are kept until the admission.
    Enters {
        #[pin]
        wait: Wait<T>,
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

/// The wait for the throttle, with a timeout or without.
#[pin_project(project = WaitProjection)]
enum Wait<T: Throttle> {
    Unbounded(#[pin] Waiting<T::Enter>),
    Bounded(#[pin] Waiting<Timeout<T::Enter>>),
}

#[pinned_drop]
impl<S, T, R, F, A> PinnedDrop for ResponseFuture<S, T, R, F, A>
where
    S: Service<R>,
    T: Throttle,
    F: Choose<R, T>,
    A: Respond<T, S::Response, S::Error>,
{
    fn drop(self: Pin<&mut Self>) {
        let mut this = self.project();
        if let StageProjection::Answered { permit, .. } = this.stage.as_mut().project() {
            let permit = permit.take();
            // The work is dropped before the permit.
            this.stage.set(Stage::Over);
            if let Some(permit) = permit {
                let throttle = this.layer.choose.throttle(this.chosen);
                this.layer.answers.abandoned(throttle, permit);
            }
        }
    }
}

impl<S, T, R, F, A> Future for ResponseFuture<S, T, R, F, A>
where
    S: Service<R>,
    T: Throttle,
    F: Choose<R, T>,
    A: Respond<T, S::Response, S::Error>,
{
    type Output = Result<A::Response, A::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (layer, mut stage) = (&**this.layer, this.stage);
        let (throttle, answers) = (layer.choose.throttle(this.chosen), &layer.answers);
        if let StageProjection::Enters { wait, work } = stage.as_mut().project() {
            let entered = match wait.project() {
                WaitProjection::Unbounded(enter) => ready!(enter.poll(context)),
                WaitProjection::Bounded(enter) => ready!(enter.poll(context)),
            };
            match entered {
                Ok(permit) => {
                    let (mut inner, request) = work.take().expect("the request was not made yet");
                    // The wait is dropped before anything else happens.
                    stage.set(Stage::Over);
                    let answer = inner.call(request);
                    let permit = Some(permit);
                    stage.set(Stage::Answered { answer, permit });
                }
                Err(error) => stage.set(Stage::Refused(Some(error))),
            }
        }
        let (answer, permit) = match stage.as_mut().project() {
            StageProjection::Answered { answer, permit } => (answer, permit),
            StageProjection::Refused(error) => {
                let error = error.take().expect("polled again after it was ready");
                stage.set(Stage::Over);
                return Poll::Ready(answers.refused(throttle, error));
            }
            _ => panic!("polled again after it was ready"),
        };
        let answered = ready!(answer.poll(context));
        let permit = permit.take().expect("it was admitted");
        // The work is dropped before the permit.
        stage.set(Stage::Over);
        Poll::Ready(match answered {
            Ok(answer) => Ok(answers.answered(throttle, permit, answer)),
            Err(error) => {
                answers.erred(throttle, permit, &error);
                Err(A::failed(error))
            }
        })
    }
}

impl<S, T, R, F, A> fmt::Debug for ResponseFuture<S, T, R, F, A>
where
    S: Service<R>,
    T: Throttle,
    F: Choose<R, T>,
    A: Respond<T, S::Response, S::Error>,
{
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
