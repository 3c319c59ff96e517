//! The service and its response future: the request waits at the gate, then the service responds. The request
//! may then wait and be sent again.
//!
//! 1. The inner service is called only when it is ready and the gate is open. The gate is
//!    checked last, because it may be blocked while the service becomes ready.
//! 2. While a request waits at the gate, its service is a clone that is not ready, so it holds none of
//!    the resources that a ready service may hold.
//! 3. A request is sent again only if the answer is a refusal, and its copy was made before.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Method, Request, Response, StatusCode};
use pin_project::pin_project;
use tollgate::wait::Waiting;
use tollgate::{Gate, Throttle};
use tollgate_http::server_limits::{ServerLimits, Unit};
use tollgate_http::{asked_wait, is_refusal, origin};
use tower_service::Service;

use super::RetryAfterLayer;

/// A service that waits as long as servers ask it to, created by a [`RetryAfterLayer`]. Clones
/// share the gates.
///
/// It is ready when the inner service is ready. A request that has to wait uses a clone of the
/// inner service instead, and makes it ready after the wait, so that waiting requests to one server do
/// not hold resources that requests to another one need.
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
    /// The next request to send; while a request is being answered, its copy.
    request: Option<Request<B>>,
}

/// The stage of the request.
#[pin_project(project = StageProjection)]
enum Stage<F> {
    /// The request waits at the gate, if there is one, and for the service.
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
                        // A wait without a timeout does not fail.
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

// The attempts at one request. The tower service and clients of other kinds share this code.

/// The attempts at one request, created by [`RetryAfterLayer::attempts`], for clients that are not tower
/// services. Dropping them loses nothing: the gates stay with the layer.
pub struct Attempts<B> {
    layer: RetryAfterLayer<B>,
    origin: String,
    retries_left: u32,
}

impl<B> RetryAfterLayer<B> {
    /// Begins a request to an origin: a string for scheme, host and port. A client that is not a tower service
    /// uses this to follow the layer. `B` is then the type that the client [copies](Self::copying).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
    /// use tokio::time::Instant;
    /// use tollgate::Clock;
    /// use tollgate_tower::RetryAfterLayer;
    ///
    /// /// Stands in for a client.
    /// async fn send(page: &str, start: Instant) -> (StatusCode, HeaderMap) {
    ///     if page == "/" && start.elapsed() >= Duration::from_secs(5) {
    ///         return (StatusCode::OK, HeaderMap::new());
    ///     }
    ///     let headers = [("retry-after".parse().unwrap(), HeaderValue::from(5))];
    ///     (StatusCode::SERVICE_UNAVAILABLE, HeaderMap::from_iter(headers))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let layer = RetryAfterLayer::copying(|page: &&str| Some(*page));
    /// let layer = layer.jitter_percent(0).clock(Clock::tokio());
    ///
    /// let start = Instant::now();
    /// let mut attempts = layer.attempts("http://example.com");
    /// let mut page = "/";
    /// let status = loop {
    ///     while let Some(gate) = attempts.blocked() {
    ///         gate.acquire().await?;
    ///     }
    ///     let copy = attempts.copy(&Method::GET, &page);
    ///     let (status, headers) = send(page, start).await;
    ///     match (attempts.answered(status, &headers), copy) {
    ///         (Some(gate), Some(copy)) => {
    ///             gate.acquire().await?;
    ///             page = copy;
    ///         }
    ///         _ => break status,
    ///     }
    /// };
    /// assert_eq!((status.as_u16(), start.elapsed().as_secs()), (200, 5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn attempts(&self, origin: impl Into<String>) -> Attempts<B> {
        Attempts {
            layer: self.clone(),
            origin: origin.into(),
            retries_left: self.retries,
        }
    }
}

impl<B> Attempts<B> {
    /// Returns the gate of the origin if it is blocked now. Check it right before the request is sent, and
    /// again after each wait at the gate, because it may have been blocked again.
    ///
    /// # Examples
    ///
    /// See [`RetryAfterLayer::attempts`].
    pub fn blocked(&self) -> Option<Gate> {
        self.layer.origins.blocked(&self.origin)
    }

    /// Returns a copy for the next attempt, or `None` if there is no next attempt: the method is neither safe nor
    /// idempotent, the retries are used up, or the original cannot be copied. Call it once for each
    /// attempt.
    ///
    /// # Examples
    ///
    /// See [`RetryAfterLayer::attempts`].
    pub fn copy(&mut self, method: &Method, original: &B) -> Option<B> {
        if !method.is_idempotent() {
            return None;
        }
        self.retries_left = self.retries_left.checked_sub(1)?;
        (self.layer.copy_body)(original)
    }

    /// Blocks the gate for as long as the response asks. Returns the gate if the request was refused and
    /// may be sent again after a wait there, and `None` if the response must go to the caller.
    ///
    /// # Examples
    ///
    /// See [`RetryAfterLayer::attempts`].
    pub fn answered(&self, status: StatusCode, headers: &HeaderMap) -> Option<Gate> {
        let layer = &self.layer;
        let used_up = || {
            let limits = ServerLimits::of(headers, (layer.wall_clock)());
            limits.tightest(Unit::Requests)?.exhausted_for()
        };
        let asked = asked_wait(status, headers, layer.wall_clock)
            .or_else(|| layer.any_status.then(used_up).flatten())?;
        let wait = asked.min(layer.max_wait);
        let gate = layer.origins.block(&self.origin, wait, layer.jitter(wait));
        if let (Some(limiter), Err(blocked)) = (&layer.paused, gate.check()) {
            limiter.pause_for(blocked.retry_after().unwrap_or_default());
        }
        (is_refusal(status, Some(asked)) && asked <= layer.max_wait).then_some(gate)
    }
}

impl<B> fmt::Debug for Attempts<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts")
            .field("origin", &self.origin)
            .field("retries_left", &self.retries_left)
            .finish_non_exhaustive()
    }
}
