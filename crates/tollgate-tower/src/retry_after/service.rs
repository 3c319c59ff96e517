//! The service and its response future: the request waits at the gate, then the service responds, then the request
//! waits and is made again if that is possible.
//!
//! 1. The inner service is called when it is ready and the gate is open, and not before. The gate is
//!    looked at last, because it may be blocked while the service becomes ready.
//! 2. While a request waits at the gate, its service is a clone that is not ready, so it holds
//!    nothing that a ready service may hold.
//! 3. A request is made again only if the answer is a refusal, and its copy was made before.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project::pin_project;
use tower_service::Service;

use super::origins::origin;
use super::{Attempts, RetryAfterLayer};
use tollgate::gate::Gate;
use tollgate::{Throttle, Waiting};

/// A service that waits as long as servers ask it to, created by a [`RetryAfterLayer`]. Clones
/// share the gates.
///
/// It is ready when the inner service is ready. A request that has to wait uses a clone of the
/// inner service instead, and makes it ready after the wait, so that requests to one server do not
/// hold what requests to another one need.
#[derive(Debug)]
pub struct RetryAfterService<S, B> {
    pub(super) inner: S,
    pub(super) layer: RetryAfterLayer<B>,
}

impl<S: Clone, B> Clone for RetryAfterService<S, B> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            layer: self.layer.clone(),
        }
    }
}

impl<S, B, R> Service<Request<B>> for RetryAfterService<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = RetryAfterFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The ready service moves into the future; the clone need not be ready.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        RetryAfterFuture {
            stage: Stage::Waits(None),
            inner,
            attempts: self.layer.attempts(origin(request.uri())),
            request: Some(request),
        }
    }
}

/// The future of a [`RetryAfterService`].
///
/// # Cancel safety
///
/// Dropping the future removes the request from the queue of the gate, or drops the work on it.
///
/// # Panics
///
/// Panics if it is polled again after completion.
#[pin_project]
#[must_use = "a future does nothing unless it is awaited"]
pub struct RetryAfterFuture<S: Service<Request<B>>, B> {
    #[pin]
    stage: Stage<S::Future>,
    inner: S,
    attempts: Attempts<B>,
    /// The request that is to be made; while it is being answered, its copy.
    request: Option<Request<B>>,
}

/// The stage of the request.
#[pin_project(project = StageProjection)]
enum Stage<F> {
    /// The request waits at the gate if there is one, and for the service.
    Waits(#[pin] Option<Waiting<<Gate as Throttle>::Enter>>),
    /// The service responds.
    Answered(#[pin] F),
    Over,
}

impl<S, B, R> Future for RetryAfterFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (mut stage, inner, attempts) = (this.stage, this.inner, this.attempts);
        loop {
            match stage.as_mut().project() {
                StageProjection::Waits(mut gate) => {
                    if let Some(wait) = gate.as_mut().as_pin_mut() {
                        // Without a timeout it does not fail.
                        let _opened = ready!(wait.poll(context));
                        gate.set(None);
                    }
                    if let Err(error) = ready!(inner.poll_ready(context)) {
                        stage.set(Stage::Over);
                        return Poll::Ready(Err(error));
                    }
                    if let Some(blocked) = attempts.blocked() {
                        *inner = inner.clone();
                        gate.set(Some(blocked.acquire_owned()));
                        continue;
                    }
                    stage.set(Stage::Over);
                    let request = this.request.take().expect("the request was not made yet");
                    let (parts, body) = request.into_parts();
                    *this.request = attempts
                        .copy(&parts.method, &body)
                        .map(|copy| Request::from_parts(parts.clone(), copy));
                    let answer = inner.call(Request::from_parts(parts, body));
                    stage.set(Stage::Answered(answer));
                }
                StageProjection::Answered(answer) => {
                    let answered = ready!(answer.poll(context));
                    stage.set(Stage::Over);
                    let answer = answered?;
                    match attempts.answered(answer.status(), answer.headers()) {
                        Some(gate) if this.request.is_some() => {
                            stage.set(Stage::Waits(Some(gate.acquire_owned())));
                        }
                        _ => return Poll::Ready(Ok(answer)),
                    }
                }
                StageProjection::Over => panic!("polled again after it was ready"),
            }
        }
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for RetryAfterFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Waits(_) => "waits",
            Stage::Answered(_) => "is answered",
            Stage::Over => "is over",
        };
        f.debug_struct("RetryAfterFuture")
            .field("stage", &stage)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}
