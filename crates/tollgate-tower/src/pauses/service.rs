//! The service and its response future: the request waits at the gate of its origin, enters the throttle, and the inner
//! service responds. The request may then wait and be sent again.
//!
//! 1. The inner service is called only when it is ready, the request has its permit and is charged, and the origin was
//!    found open after that.
//! 2. Whatever a request has entered is given up before it waits at the gate: the permit, the charges, and the readiness
//!    of the inner service.
//! 3. A permit or a charge whose request was not sent is rolled back. After that, the work is dropped first and then the permit,
//!    which moves into the body of the response.
//! 4. A request is sent again only if its copy was made before.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use pin_project::pin_project;
use tollgate::Throttle;
use tollgate::throttle::RollbackGuard;
use tollgate::wait::Waiting;
use tollgate_http::{ApiCall, ApiCharges, Call, NextStep};
use tower_service::Service;

use super::{GateName, PausesLayer};
use crate::ThrottledBody;

type BoxError = Box<dyn Error + Send + Sync>;

/// The response with its permit, or the error of a request.
type Outcome<R, P> = Result<Response<ThrottledBody<R, P>>, BoxError>;

/// A service that waits as long as servers ask it to, created by a [`PausesLayer`]. Clones share the pauses and the
/// throttle.
///
/// It is always ready: a request waits in its future, which makes a clone of the inner service ready after the
/// other waits, and so holds nothing of it before.
#[derive(Debug)]
pub struct PausesService<S, B, T> {
    pub(super) inner: S,
    /// Shared, because clients clone the service for each request.
    pub(super) layer: Arc<PausesLayer<B, T>>,
}

impl<S: Clone, B, T> Clone for PausesService<S, B, T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            layer: Arc::clone(&self.layer),
        }
    }
}

impl<S, B, T, R> Service<Request<B>> for PausesService<S, B, T>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    T: Throttle,
    R: Body<Data: From<String>>,
{
    type Response = Response<ThrottledBody<R, T::Permit>>;
    type Error = BoxError;
    type Future = PausesFuture<S, B, T>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let layer = Arc::clone(&self.layer);
        let call = layer.pauses.call(layer.gate(&request));
        PausesFuture {
            stage: Stage::Gate,
            call: Some(call),
            throttle: (layer.throttle_of)(&request),
            limits: layer.limits_of(&request),
            inner: self.inner.clone(),
            request: Some(request.into_parts()),
            layer,
        }
    }
}

/// The future of a [`PausesService`].
///
/// # Cancel safety
///
/// Dropping the future gives up the place of the request, and rolls its permit back if it was not sent. Otherwise it drops
/// the work on it, and returns its permit.
///
/// # Panics
///
/// Panics if it is polled again after completion.
#[pin_project]
#[must_use = "a future does nothing unless it is awaited"]
pub struct PausesFuture<S: Service<Request<B>>, B, T: Throttle> {
    #[pin]
    stage: Stage<S::Future, T>,
    /// `Some` until the response is ready.
    call: Option<Call<GateName>>,
    throttle: T,
    limits: Option<ApiCall>,
    inner: S,
    /// The next request to send; while a request is being answered, its copy.
    request: Option<(Parts, B)>,
    layer: Arc<PausesLayer<B, T>>,
}

/// The stage of the request.
#[pin_project(project = StageProjection)]
enum Stage<F, T: Throttle> {
    /// The request waits until its origin is not paused.
    Gate,
    /// It enters the throttle.
    Throttle(#[pin] Waiting<T::Enter>),
    /// It enters the limits of the API. The fields are dropped in this order.
    Limits {
        #[pin]
        enter: Waiting<<Option<ApiCall> as Throttle>::Enter>,
        /// `Some` until the limits are entered.
        permit: Option<RollbackGuard<T>>,
    },
    /// It waits for the inner service.
    Ready(Option<(RollbackGuard<Option<ApiCall>>, RollbackGuard<T>)>),
    /// The inner service responds. The fields are dropped in this order.
    Answered {
        #[pin]
        answer: F,
        /// `Some` until the response is ready, if there are limits.
        charges: Option<ApiCharges>,
        /// `Some` until the response is ready.
        permit: Option<T::Permit>,
    },
    Over,
}

impl<S, B, T, R> Future for PausesFuture<S, B, T>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    T: Throttle,
    R: Body<Data: From<String>>,
{
    type Output = Outcome<R, T::Permit>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(self.as_mut().poll_outcome(context));
        let mut this = self.project();
        this.stage.set(Stage::Over);
        // A request that has failed without a response counts no longer as in flight.
        *this.call = None;
        Poll::Ready(outcome)
    }
}

impl<S, B, T, R> PausesFuture<S, B, T>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    T: Throttle,
    R: Body<Data: From<String>>,
{
    fn poll_outcome(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Outcome<R, T::Permit>> {
        let this = self.project();
        let (mut stage, inner, layer) = (this.stage, this.inner, this.layer);
        let Some(call) = this.call else {
            panic!("polled again after it was ready");
        };
        loop {
            match stage.as_mut().project() {
                StageProjection::Gate => {
                    ready!(call.poll_ready(context))?;
                    stage.set(Stage::Throttle(this.throttle.enter()));
                }
                StageProjection::Throttle(enter) => {
                    let permit = ready!(enter.poll(context))?;
                    let permit = Some(RollbackGuard::new(this.throttle.clone(), permit));
                    let enter = this.limits.enter();
                    stage.set(Stage::Limits { enter, permit });
                }
                StageProjection::Limits { enter, permit } => {
                    let charges = ready!(enter.poll(context))?;
                    let charges = RollbackGuard::new(this.limits.clone(), charges);
                    let guards = permit.take().map(|permit| (charges, permit));
                    stage.set(Stage::Ready(guards));
                }
                StageProjection::Ready(guards) => {
                    ready!(inner.poll_ready(context)).map_err(Into::into)?;
                    if !call.send() {
                        stage.set(Stage::Gate);
                        // The clone need not be ready, so it holds nothing.
                        *inner = inner.clone();
                        continue;
                    }
                    let (parts, body) = this.request.take().expect("the request was not sent yet");
                    *this.request = call
                        .has_retries_left()
                        .then(|| (layer.copy_body)(&body))
                        .flatten()
                        .map(|copy| (parts.clone(), copy));
                    // If the copy panics, all is still rolled back.
                    let (charges, permit) = guards.take().expect("the request was not sent yet");
                    let (charges, permit) = (charges.disarm(), Some(permit.disarm()));
                    let answer = inner.call(Request::from_parts(parts, body));
                    stage.set(Stage::Answered {
                        answer,
                        charges,
                        permit,
                    });
                }
                StageProjection::Answered {
                    answer,
                    charges,
                    permit,
                } => {
                    let answered = ready!(answer.poll(context));
                    let (charges, permit) = (charges.take(), permit.take());
                    // The work is dropped before the permit.
                    stage.set(Stage::Gate);
                    let mut answer = answered.map_err(Into::into)?;
                    let (status, headers) = (answer.status(), answer.headers());
                    let class = layer.pauses.class(status, headers);
                    if let Some(charges) = charges {
                        let usage = charges.answered(status, headers, class, SystemTime::now());
                        if !usage.is_settled() {
                            answer.extensions_mut().insert(usage);
                        }
                    }
                    let copy = this.request.as_ref();
                    let may_retry = copy.is_some_and(|(parts, _)| (layer.retry_if)(parts, status));
                    match call.answered_with(status, answer.headers(), class, may_retry) {
                        // The response is dropped before the permit, and both before the wait.
                        NextStep::Retry => drop((answer, permit)),
                        NextStep::Return => {
                            let answer = answer.map(|body| ThrottledBody::holding(body, permit));
                            return Poll::Ready(Ok(answer));
                        }
                    }
                }
                StageProjection::Over => unreachable!("there is no call then"),
            }
        }
    }
}

impl<S: Service<Request<B>>, B, T: Throttle> fmt::Debug for PausesFuture<S, B, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Gate => "waits at the gate",
            Stage::Throttle(_) => "enters the throttle",
            Stage::Limits { .. } => "enters the limits",
            Stage::Ready(_) => "waits for the service",
            Stage::Answered { .. } => "is answered",
            Stage::Over => "is over",
        };
        f.debug_struct("PausesFuture")
            .field("stage", &stage)
            .finish_non_exhaustive()
    }
}
