//! Defines the layer and its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::response::Parts;
use tower_layer::Layer;

use super::extractor::{ByParts, ByRequest};
use super::{
    Errors, Policy, RateLimitHeaders, RejectionFormat, RequestParts, Responses, ThrottleService,
};
use tollgate::throttle::{Adaptive, Feedback, Inspect};
use tollgate::{AcquireError, Throttle, TryThrottle};

/// Puts services behind a throttle. See [the module](crate) for its behavior.
///
/// Servers need services that are `'static`, so use a throttle that owns its data: an
/// `Arc<Semaphore>`, a throttle in a `static`, an [`all`](tollgate::all) of these, or a
/// [`BoxThrottle`](tollgate::throttle::BoxThrottle). Clones of the layer share the throttle.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use axum::Router;
/// use axum::routing::get;
/// use tollgate_tower::ThrottleLayer;
/// use tollgate::{Semaphore, all};
///
/// // At most 64 requests run at once, 8 of them reports. At most 256 more wait, 16 of them for reports.
/// // None waits for longer than 2 seconds.
/// const PATIENCE: Duration = Duration::from_secs(2);
/// let everything = Arc::new(Semaphore::new(64).max_waiters(256));
/// let reports = Arc::new(Semaphore::new(8).max_waiters(16));
/// let app: Router = Router::new()
///     .route("/users", get(async || "users"))
///     .layer(ThrottleLayer::new(Arc::clone(&everything)).timeout(PATIENCE))
///     .merge(
///         Router::new()
///             .route("/report", get(async || "a report"))
///             .layer(ThrottleLayer::new(all((reports, everything))).timeout(PATIENCE)),
///     );
/// ```
#[derive(Clone)]
#[must_use = "a layer does nothing unless it is put around a service"]
#[doc(alias = "ConcurrencyLimit")]
#[doc(alias = "ConcurrencyLimitLayer")]
#[doc(alias = "GlobalConcurrencyLimitLayer")]
#[doc(alias = "RateLimit")]
#[doc(alias = "RateLimitLayer")]
#[doc(alias = "Governor")]
#[doc(alias = "GovernorLayer")]
pub struct ThrottleLayer<T: Throttle, F = T, A = Responses<T>> {
    pub(super) extractor: F,
    pub(super) timeout: Option<Duration>,
    /// `Some` if requests do not wait.
    pub(super) try_enter: Option<TryEnter<T>>,
    pub(super) answers: A,
}

/// [`TryThrottle::try_enter`], as a value. The types of the layer and the service do not require a
/// `TryThrottle`, because only a layer that rejects at once needs it.
type TryEnter<T> = fn(&T) -> Result<<T as Throttle>::Permit, AcquireError>;

/// Uses one throttle for all requests.
impl<T: Throttle> ThrottleLayer<T> {
    /// Creates a layer whose requests wait until the throttle admits them, **without a bound** of its own.
    /// To bound the number of waiters, bound the queue of the throttle, for example with
    /// [`max_waiters`](tollgate::Semaphore::max_waiters). To bound the wait, add a
    /// [`timeout`](Self::timeout). An overloaded server needs both.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::Semaphore;
    /// use tollgate_tower::ThrottleLayer;
    ///
    /// // 64 requests run at once; 256 more wait, each for at most 2 seconds.
    /// let slots = Arc::new(Semaphore::new(64).max_waiters(256));
    /// let layer = ThrottleLayer::new(slots).timeout(Duration::from_secs(2));
    /// ```
    #[doc(alias = "concurrency_limit")]
    #[doc(alias = "rate_limit")]
    #[doc(alias = "with_semaphore")]
    #[doc(alias = "GlobalKeyExtractor")]
    pub fn new(throttle: T) -> Self {
        Self::waiting(throttle)
    }
}

/// Chooses a throttle for each request.
impl<T: Throttle, F> ThrottleLayer<T, ByParts<F>> {
    /// Creates a layer whose requests wait until their own throttle admits them. The closure chooses
    /// it from the parts of each request. It is called once, when the service is called.
    ///
    /// The chosen throttle may be a [key](tollgate::Keyed::key_owned), have a
    /// [cost](tollgate::keyed::Key::cost), combine several limits by [`all`](tollgate::all), or be an
    /// `Option`, whose `None` admits the request.
    ///
    /// # Examples
    ///
    /// A rate by address, where a report costs 10 requests, and a rate for all addresses together:
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use std::sync::Arc;
    ///
    /// use axum::Router;
    /// use axum::body::Body;
    /// use axum::extract::ConnectInfo;
    /// use axum::http::{Extensions, Request};
    /// use tollgate_tower::{ClientIp, ThrottleLayer};
    /// use tollgate::{Keyed, Quota, RateLimiter, all};
    /// use tower::ServiceExt;
    ///
    /// fn peer(extensions: &Extensions) -> Option<SocketAddr> {
    ///     Some(extensions.get::<ConnectInfo<SocketAddr>>()?.0)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clients = Arc::new(Keyed::rate_limiters(Quota::per_minute(60).burst(20)));
    /// let everyone = Arc::new(RateLimiter::new(Quota::per_second(1000).burst(100)));
    /// let address = ClientIp::peer(peer);
    /// let app: Router = Router::new().layer(ThrottleLayer::by(move |parts| {
    ///     let cost = if parts.uri.path() == "/report" { 10 } else { 1 };
    ///     let client = Arc::clone(&clients).key_owned(address.of(parts));
    ///     all((client.cost(cost), Arc::clone(&everyone)))
    /// }).refusing());
    ///
    /// for expected in [404, 404, 429] {
    ///     let answer = app.clone().oneshot(Request::get("/report").body(Body::empty())?);
    ///     assert_eq!(answer.await?.status(), expected);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "KeyExtractor")]
    #[doc(alias = "key_extractor")]
    pub fn by(extract: F) -> Self
    where
        F: Fn(RequestParts<'_>) -> T + Clone,
    {
        Self::waiting(ByParts(extract))
    }
}

/// Chooses a throttle for each request, for services of any kind.
impl<T: Throttle, F> ThrottleLayer<T, ByRequest<F>> {
    /// Creates a layer like [`by`](ThrottleLayer::by) for requests of any type. If the service does
    /// not answer over HTTP, add [`errors`](Self::errors).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use tollgate_tower::ThrottleLayer;
    /// use tollgate::{AcquireError, Keyed, Quota};
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    ///
    /// struct Job {
    ///     tenant: u64,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// let tenants = Arc::new(Keyed::rate_limiters(Quota::per_hour(1)));
    /// let by_tenant = move |job: &Job| Arc::clone(&tenants).key_owned(job.tenant);
    /// let run = service_fn(async |_: Job| Ok::<_, std::io::Error>("done"));
    /// let mut run = ThrottleLayer::by_request(by_tenant).refusing().errors().layer(run);
    ///
    /// assert_eq!(run.ready().await?.call(Job { tenant: 7 }).await?, "done");
    /// let refused = run.ready().await?.call(Job { tenant: 7 }).await.unwrap_err();
    /// assert!(refused.is::<AcquireError>());
    /// # Ok(())
    /// # }
    /// ```
    pub fn by_request<R>(extract: F) -> Self
    where
        F: Fn(&R) -> T + Clone,
    {
        Self::waiting(ByRequest(extract))
    }
}

impl<T: Throttle, F> ThrottleLayer<T, F> {
    fn waiting(extractor: F) -> Self {
        Self {
            extractor,
            timeout: None,
            try_enter: None,
            answers: Responses::new(),
        }
    }
}

/// Sets the wait of requests.
impl<T: Throttle, F, A> ThrottleLayer<T, F, A> {
    /// Rejects requests that the throttle does not admit at once: they never wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Semaphore;
    /// use tollgate_tower::ThrottleLayer;
    ///
    /// let layer = ThrottleLayer::new(Arc::new(Semaphore::new(64))).refusing();
    /// ```
    #[doc(alias = "load_shed")]
    #[doc(alias = "LoadShed")]
    #[doc(alias = "LoadShedLayer")]
    pub fn refusing(mut self) -> Self
    where
        T: TryThrottle,
    {
        self.try_enter = Some(T::try_enter);
        self
    }

    /// Rejects a request after it has waited for `duration`, or earlier if the throttle knows that
    /// the wait would be longer. A request that is admitted at once needs no timer. A layer that
    /// [refuses](Self::refusing) ignores the timeout.
    ///
    /// The timeout uses the same time as the `timeout` of the throttle's own futures: the
    /// limiter's [clock](tollgate::Clock) for a rate limiter, otherwise tokio's time inside a tokio
    /// runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// use axum::Router;
    /// use axum::body::Body;
    /// use axum::http::Request;
    /// use tokio::time::Instant;
    /// use tollgate::Semaphore;
    /// use tollgate_tower::ThrottleLayer;
    /// use tower::ServiceExt;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), std::convert::Infallible> {
    /// let nobody = Arc::new(Semaphore::new(0));
    /// let patient = ThrottleLayer::new(nobody).timeout(Duration::from_secs(2));
    /// let app: Router = Router::new().layer(patient);
    ///
    /// let begun = Instant::now();
    /// let refused = app.oneshot(Request::new(Body::empty())).await?;
    /// assert_eq!(refused.status(), 429);
    /// assert_eq!(begun.elapsed(), Duration::from_secs(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, duration: Duration) -> Self {
        self.timeout = Some(duration);
        self
    }
}

/// Sets the contents of responses.
impl<T: Throttle, F> ThrottleLayer<T, F> {
    /// Sets the status of rejections after which the client may try again, in place of 429. Other
    /// rejections [keep their status](crate#refusals).
    ///
    /// 429 tells a client that it made too many requests, which suits a throttle of its own.
    /// 503 reports that the service is overloaded, which suits a shared throttle.
    ///
    /// # Panics
    ///
    /// Panics if the status is not an error status, 400 to 599.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use axum::Router;
    /// use axum::body::Body;
    /// use axum::http::{Request, StatusCode};
    /// use tollgate::Semaphore;
    /// use tollgate_tower::ThrottleLayer;
    /// use tower::ServiceExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), std::convert::Infallible> {
    /// let full = ThrottleLayer::new(Arc::new(Semaphore::new(0))).refusing();
    /// let app: Router = Router::new().layer(full.status(StatusCode::SERVICE_UNAVAILABLE));
    /// let refused = app.oneshot(Request::new(Body::empty())).await?;
    /// assert_eq!(refused.status(), 503);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.answers.rejections = self.answers.rejections.status(status);
        self
    }

    /// Names the limits, in the order of the parts of the throttle, for
    /// [fields](Self::headers) and [problems](Self::rejection_format). Each part of a nested composition counts
    /// separately, and so does a missing part. A rejection by the policy of a
    /// [client](Policy::client) has the status 429, and a rejection by that of the [server](Policy::server) 503.
    /// Limits without a policy are named `default`, `default-2` and so on in fields, and policies
    /// without a limit have no effect. The order matters: only the order connects a policy with its limit.
    ///
    /// # Panics
    ///
    /// Panics if two policies have the same name, or if one has a name such as `default-2`, which is reserved for
    /// limits without a policy.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use axum::Router;
    /// use axum::body::Body;
    /// use axum::http::Request;
    /// use tollgate_tower::{Policy, RateLimitHeaders, ThrottleLayer};
    /// use tollgate::{Quota, RateLimiter, Semaphore, all};
    /// use tower::ServiceExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let rate = Arc::new(RateLimiter::new(Quota::per_minute(60).burst(2)));
    /// let slots = Arc::new(Semaphore::new(8));
    /// let layer = ThrottleLayer::new(all((rate, slots))).refusing()
    ///     .policies([Policy::client("rate"), Policy::server("slots")])
    ///     .headers(RateLimitHeaders::Draft11);
    /// let app: Router = Router::new().layer(layer);
    ///
    /// let answer = app.oneshot(Request::new(Body::empty())).await?;
    /// let policies = r#""rate";q=60;w=60, "slots";q=8;qu="concurrent-requests""#;
    /// assert_eq!(answer.headers()["ratelimit-policy"], policies);
    /// assert_eq!(answer.headers()["ratelimit"], r#""rate";r=1;t=1, "slots";r=7"#);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn policies(mut self, policies: impl IntoIterator<Item = Policy>) -> Self
    where
        T: Inspect,
    {
        self.answers.rejections = self.answers.rejections.policies(policies);
        self.answers.inspect = Some(T::inspect);
        self
    }

    /// Adds fields to every response, including rejections, that tell the client its limits; see
    /// [`RateLimitHeaders`]. The numbers are those of the moment when the response is ready. The last
    /// call takes effect.
    ///
    /// # Examples
    ///
    /// See [`policies`](Self::policies).
    #[doc(alias = "use_headers")]
    pub fn headers(mut self, headers: RateLimitHeaders) -> Self
    where
        T: Inspect,
    {
        self.answers.rejections = self.answers.rejections.headers(headers);
        self.answers.inspect = Some(T::inspect);
        self
    }

    /// Sets the form of rejections, in place of an empty body.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use axum::Router;
    /// use axum::body::{Body, to_bytes};
    /// use axum::http::Request;
    /// use tollgate::Semaphore;
    /// use tollgate_tower::{RejectionFormat, Policy, ThrottleLayer};
    /// use tower::ServiceExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let layer = ThrottleLayer::new(Arc::new(Semaphore::new(0))).refusing()
    ///     .policies([Policy::server("slots")])
    ///     .rejection_format(RejectionFormat::ProblemJson);
    /// let app: Router = Router::new().layer(layer);
    ///
    /// let refused = app.oneshot(Request::new(Body::empty())).await?;
    /// assert_eq!(refused.status(), 503);
    /// assert_eq!(refused.headers()["content-type"], "application/problem+json");
    /// let problem: serde_json::Value =
    ///     serde_json::from_slice(&to_bytes(refused.into_body(), 1000).await?)?;
    /// assert_eq!(problem["violated-policies"][0], "slots");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "error_handler")]
    #[doc(alias = "GovernorError")]
    pub fn rejection_format(mut self, format: RejectionFormat) -> Self {
        self.answers.rejections = self.answers.rejections.format(format);
        self
    }

    /// Returns the permit of a request if the closure returns `true` for the head of its response: a rate
    /// limiter then refunds the charge, so that only failed logins count, for example. Until it is
    /// answered, every request counts, so the burst must be above the number of simultaneous requests.
    /// The permit of a concurrency throttle returns before the body was sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use axum::Router;
    /// use axum::body::Body;
    /// use axum::extract::Path;
    /// use axum::http::{Request, StatusCode};
    /// use axum::routing::get;
    /// use tollgate_tower::ThrottleLayer;
    /// use tollgate::{Quota, RateLimiter};
    /// use tower::ServiceExt;
    ///
    /// async fn login(Path(password): Path<String>) -> StatusCode {
    ///     if password == "right" { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let failures = Arc::new(RateLimiter::new(Quota::per_hour(1)));
    /// let counted = ThrottleLayer::new(failures).refusing().refund_if(|answer| answer.status != 401);
    /// let app: Router = Router::new().route("/login/{password}", get(login)).layer(counted);
    ///
    /// for (password, expected) in [("right", 200), ("right", 200), ("1234", 401), ("right", 429)] {
    ///     let request = Request::get(format!("/login/{password}")).body(Body::empty())?;
    ///     assert_eq!(app.clone().oneshot(request).await?.status(), expected);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn refund_if(mut self, refund_if: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.answers.refund_if = Some(Arc::new(refund_if));
        self
    }

    /// Reports to an adaptive throttle how each request ended. It ended with overload if the closure returns
    /// `true` for the head of its response, for example for a 503 of a dependency. Otherwise the time to the head
    /// is its latency. The permit is still held to the end of the body, so a client that reads
    /// slowly does not look like a slow service. A request that is dropped before its head has arrived is
    /// ignored. Use this with every adaptive throttle: without it, the latency is the time until the permit
    /// is dropped, for whatever reason.
    ///
    /// Responses of the layer itself are not reported, and neither are responses that are
    /// [refunded](Self::refund_if).
    ///
    /// # Examples
    ///
    /// ```
    /// use axum::Router;
    /// use axum::body::Body;
    /// use axum::http::{Request, StatusCode};
    /// use axum::routing::get;
    /// use tollgate_adaptive::{AdaptiveSemaphore, Gradient, Shared};
    /// use tollgate_tower::ThrottleLayer;
    /// use tower::ServiceExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limit = Shared::from(AdaptiveSemaphore::new(Gradient::default()).max_waiters(100));
    /// let layer = ThrottleLayer::new(limit.clone()).overloaded_if(|answer| answer.status == 503);
    /// let app: Router = Router::new()
    ///     .route("/", get(|| async { StatusCode::SERVICE_UNAVAILABLE }))
    ///     .layer(layer);
    /// app.oneshot(Request::get("/").body(Body::empty())?).await?;
    /// assert_eq!(limit.snapshot().window.overloaded(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn overloaded_if(
        mut self,
        overloaded_if: impl Fn(&Parts) -> bool + Send + Sync + 'static,
    ) -> Self
    where
        T: Adaptive,
    {
        let overloaded_if = Arc::new(overloaded_if);
        self.answers.overloaded_if = Some((overloaded_if, T::learn));
        self
    }

    /// Reports to an adaptive throttle how each call ended, for clients of a backend with any type of
    /// request and response. The closure gets the answer or the error of the service;
    /// [`feedback`](super::feedback) classifies responses over HTTP. The permit is held until the answer
    /// arrives; for a response, that is its head. Rejections are errors, as with
    /// [`errors`](Self::errors). Settings of responses are dropped.
    ///
    /// A call that is dropped before it is answered is ignored, because its latency is unknown.
    /// Put a timeout inside this layer, so that the closure gets its error.
    ///
    /// An [`AdaptiveRate`](https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveRate.html) pauses later requests for as long as a refusal
    /// asks for. The refused request is not sent again: its answer is returned. A
    /// [`PausesLayer`](super::PausesLayer) outside this layer sends it again, and each attempt then enters the
    /// throttle.
    ///
    /// # In a spawned task
    ///
    /// If the error is a `BoxError`, `tokio::spawn(async move { client.oneshot(request).await })` does
    /// not compile: "implementation of `FnOnce` is not general enough". To check that the block is `Send`,
    /// the compiler replaces the `'static` of the trait object with any lifetime, and neither a closure nor
    /// a function is general enough for that. These alternatives compile: `tokio::spawn(client.oneshot(request))`,
    /// a client in tower's `BoxCloneService`, and a concrete error type.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use http::{Request, Response, StatusCode};
    /// use tollgate::throttle::Feedback;
    /// use tollgate::{Quota, RateLimiter};
    /// use tollgate_adaptive::{AdaptiveSemaphore, Shared};
    /// use tollgate_tower::{ThrottleLayer, feedback};
    /// use tower::util::BoxCloneService;
    /// use tower::{BoxError, Layer, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// // An HTTP client, for example hyper's.
    /// let client = service_fn(async |request: Request<()>| match request.uri().path() {
    ///     "/slow" => Err(BoxError::from("timed out")),
    ///     _ => Ok(Response::builder().status(503).body(())?),
    /// });
    /// let backend = Shared::from(AdaptiveSemaphore::default());
    /// let client = ThrottleLayer::new(backend.clone())
    ///     .classify(|answer: Result<&Response<()>, &BoxError>| match answer {
    ///         Ok(answer) => feedback(answer),
    ///         Err(_) => Feedback::OVERLOADED,
    ///     })
    ///     .layer(client);
    ///
    /// let answer = client.clone().oneshot(Request::get("/").body(())?).await?;
    /// assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    ///
    /// // A limit without feedback goes into a layer of its own, outside this one.
    /// let rate = Arc::new(RateLimiter::new(Quota::per_second(100)));
    /// let client = ThrottleLayer::new(rate).errors().layer(client);
    ///
    /// // In a task: the future of the request, or a boxed client.
    /// let slow = Request::get("/slow").body(())?;
    /// assert!(tokio::spawn(client.clone().oneshot(slow)).await?.is_err());
    /// let client = BoxCloneService::new(client);
    /// let slow = Request::get("/slow").body(())?;
    /// assert!(tokio::spawn(async move { client.oneshot(slow).await }).await?.is_err());
    /// assert_eq!(backend.snapshot().window.overloaded(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn classify<A, E, C>(self, classify: C) -> ThrottleLayer<T, F, Errors<C>>
    where
        T: Adaptive,
        C: Fn(Result<&A, &E>) -> Feedback + Clone,
    {
        self.with_errors(classify)
    }

    /// Turns rejections into errors of the service instead of responses, so that the layer fits around any
    /// [`Service`](tower_service::Service). The error is boxed, like the errors of tower's own layers, and
    /// contains an [`AcquireError`](tollgate::AcquireError). The permit is held until the response has arrived.
    /// Settings of responses are dropped.
    ///
    /// # Examples
    ///
    /// See [`by_request`](ThrottleLayer::by_request).
    pub fn errors(self) -> ThrottleLayer<T, F, Errors> {
        self.with_errors(())
    }

    fn with_errors<C>(self, classify: C) -> ThrottleLayer<T, F, Errors<C>> {
        ThrottleLayer {
            extractor: self.extractor,
            timeout: self.timeout,
            try_enter: self.try_enter,
            answers: Errors(classify),
        }
    }
}

impl<S, T: Throttle, F: Clone, A: Clone> Layer<S> for ThrottleLayer<T, F, A> {
    type Service = ThrottleService<S, T, F, A>;

    fn layer(&self, inner: S) -> Self::Service {
        ThrottleService {
            inner,
            layer: Arc::new(self.clone()),
        }
    }
}

impl<T: Throttle, F: fmt::Debug, A: fmt::Debug> fmt::Debug for ThrottleLayer<T, F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleLayer")
            .field("throttle", &self.extractor)
            .field("timeout", &self.timeout)
            .field("refuses", &self.try_enter.is_some())
            .field("answers", &self.answers)
            .finish()
    }
}
