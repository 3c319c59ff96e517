//! [`RetryAfterLayer`]: makes clients wait as long as servers ask them to.
//!
//! `service` takes a request through tower and decides how it continues after each answer. The meaning of an answer,
//! and the gates of the origins, are in `tollgate-http`.

mod service;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_body::Body;
use tower_layer::Layer;

pub use self::service::Attempts;
pub use self::service::{RetryAfterFuture, RetryAfterService};
use tollgate::{Clock, RateLimiter};
use tollgate_http::Origins;

/// Makes an HTTP client wait as long as servers ask it to. The wait applies to all requests to that server,
/// not only to the refused one.
///
/// There is a [`Gate`](tollgate::Gate) for each origin: scheme, host and port. An answer that asks for a pause
/// blocks the gate for all clones of the layer and its services, and requests wait at the gate in
/// their response futures until it opens. Requests whose URI has no host share one gate. A service that is
/// not a connection may receive such requests.
///
/// | the answer | gate blocked | request sent again |
/// |---|---|---|
/// | 429, 503, 529, 403 or 418 with a `Retry-After` or a similar field | for that long | yes |
/// | one of these without such a field, and a limit is exhausted | until its reset, the latest of several | yes |
/// | another status, and a limit of requests is exhausted | only [if asked for](Self::rate_limit_of_any_status): until its reset | no |
/// | any other, or one with an unreadable field | no | no |
///
/// A limit is exhausted if nothing remains of it in the fields that
/// [`ServerLimits`](crate::server_limits::ServerLimits::of) reads, of any unit. A 403 or a 418 with neither field is not
/// a temporary refusal. GitHub, however, refuses with a 403 when a limit is exhausted.
///
/// - *A pause longer than [`max_wait`](Self::max_wait)*, by default a minute: the answer is returned
///   at once, and the gate is blocked for `max_wait`.
/// - *A 403 for another reason*, in an answer that also reports an exhausted limit: an idempotent
///   request waits for the reset, and the answer is returned after the retries.
/// - *A request is sent again* up to [twice](Self::retries) if its method is safe or idempotent
///   (GET, HEAD, OPTIONS, TRACE, PUT, DELETE) and its body can be sent again: if the body is empty, or
///   with a [function that copies it](Self::copying). Otherwise the answer is returned. Errors of
///   the inner service are returned too.
/// - *Jitter*: pauses are up to [a tenth](Self::jitter_percent) longer than the server asks for, at
///   random, so that its clients do not return all at once. They are never shorter. An answer that
///   asks for no more than the current pause of the gate changes nothing.
/// - *Dates* count from the `Date` of the answer, or from [this machine's
///   time](Self::wall_clock) without one.
/// - *Memory* is bounded by [`max_origins`](Self::max_origins).
/// - *An origin has one gate*, because no field tells which requests a limit covers. If the limit of
///   one route stops too many requests, use a client of its own for that route.
///
/// # Which clients
///
/// The inner service takes an `http::Request<B>` and is `Clone`. hyper-util's client is such a
/// service:
///
/// ```
/// use axum::body::Body;
/// use hyper_util::client::legacy::Client;
/// use hyper_util::rt::TokioExecutor;
/// use tollgate_tower::RetryAfterLayer;
/// use tower::Layer;
///
/// let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
/// let client = RetryAfterLayer::<Body>::new().layer(client);
/// ```
///
/// For reqwest, the crate [`tollgate-reqwest`] makes a middleware of the layer. Other kinds of clients follow
/// the layer with [`attempts`](Self::attempts).
///
/// # Order of layers
///
/// A request that has passed the gate may wait again, for a rate, a slot or a fair queue. The
/// [innermost](Self::innermost) clone of the layer, directly around the client, checks the gate once more.
/// So no request leaves during a pause, wherever it has waited:
///
/// ```
/// use std::sync::Arc;
///
/// use tollgate_tower::{RetryAfterLayer, ThrottleLayer};
/// use tollgate::{Quota, RateLimiter, Semaphore};
/// use tower::Layer;
///
/// # use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// # let client = Client::builder(TokioExecutor::new()).build_http::<axum::body::Body>();
/// let slots = Arc::new(Semaphore::new(8));
/// let rate = Arc::new(RateLimiter::new(Quota::per_second(10)));
/// let retry = RetryAfterLayer::new().pausing(Arc::clone(&rate));
/// let client = retry.innermost().layer(client);
/// let client = ThrottleLayer::new(rate).errors().layer(client);
/// let client = retry.layer(client);
/// let client = ThrottleLayer::new(slots).errors().layer(client); // outermost
/// # let mut client = client;
/// # drop(tower::Service::call(&mut client, axum::http::Request::new(axum::body::Body::empty())));
/// ```
///
/// When a gate opens, all its waiters pass at once, first-in first-out. With a limiter that is
/// [paused](Self::pausing) together with the gate, no waiters accumulate there, and after the pause requests
/// leave one by one at the rate.
///
/// A request that the client has accepted is sent, even if the client must still connect for it.
///
/// # Cancel safety
///
/// Dropping the response future removes the request from the queue, and loses nothing.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
/// use std::time::Duration;
///
/// use axum::Router;
/// use axum::body::Body;
/// use axum::http::{Request, StatusCode};
/// use axum::routing::get;
/// use tokio::time::Instant;
/// use tollgate::Clock;
/// use tollgate_tower::RetryAfterLayer;
/// use tower::{Layer, ServiceExt};
///
/// /// A server that is overloaded at first.
/// async fn page() -> (StatusCode, [(&'static str, &'static str); 1]) {
///     static REQUESTS: AtomicUsize = AtomicUsize::new(0);
///     match REQUESTS.fetch_add(1, Relaxed) {
///         0 => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "5")]),
///         _ => (StatusCode::OK, [("server", "example")]),
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let polite = RetryAfterLayer::new().jitter_percent(0).clock(Clock::tokio());
/// // Stands in for an HTTP client.
/// let client = polite.layer(Router::new().route("/", get(page)));
///
/// let start = Instant::now();
/// let request = Request::get("http://example.com/").body(Body::empty())?;
/// assert_eq!(client.oneshot(request).await?.status(), StatusCode::OK);
/// assert_eq!(start.elapsed(), Duration::from_secs(5));
/// # Ok(())
/// # }
/// ```
///
/// [`tollgate-reqwest`]: https://docs.rs/tollgate-reqwest/latest/tollgate_reqwest/
#[must_use = "a layer does nothing unless it is put around a service"]
pub struct RetryAfterLayer<B> {
    origins: Arc<Origins>,
    copy_body: fn(&B) -> Option<B>,
    wall_clock: fn() -> SystemTime,
    max_wait: Duration,
    retries: u32,
    jitter_percent: u8,
    any_status: bool,
    paused: Option<Arc<RateLimiter>>,
}

/// Construction.
impl<B> RetryAfterLayer<B> {
    /// Creates a layer that sends requests without a body again.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn new() -> Self
    where
        B: Body + Default,
    {
        Self::copying(|body| body.is_end_stream().then(B::default))
    }

    /// Creates a layer that sends requests again if this function can copy their body. A request for which it
    /// returns `None` is sent once. The function is called before each attempt except the last one.
    ///
    /// # Examples
    ///
    /// ```
    /// use axum::body::Bytes;
    /// use http_body_util::Full;
    /// use tollgate_tower::RetryAfterLayer;
    ///
    /// // Bodies in memory are cheap to clone.
    /// let layer = RetryAfterLayer::copying(|body: &Full<Bytes>| Some(body.clone()));
    /// // Requests wait, and none is sent again.
    /// let once = RetryAfterLayer::copying(|_: &axum::body::Body| None);
    /// ```
    pub fn copying(copy_body: fn(&B) -> Option<B>) -> Self {
        Self {
            origins: Arc::new(Origins::new(1024, Clock::default())),
            copy_body,
            wall_clock: SystemTime::now,
            max_wait: Duration::from_secs(60),
            retries: 2,
            jitter_percent: 10,
            any_status: false,
            paused: None,
        }
    }

    /// Returns a clone without [retries](Self::retries), to put directly around the client: it checks
    /// the gate right before a request is sent, and blocks the gate as soon as an answer arrives. It
    /// shares the gates, so set the options first. See [the order of layers](Self#order-of-layers).
    ///
    /// # Examples
    ///
    /// A request waits for its turn at the rate when the server asks for a pause, and then also waits for the
    /// end of the pause:
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use std::sync::Arc;
    ///
    /// use axum::body::Body;
    /// use axum::http::{Request, Response};
    /// use tokio::time::Instant;
    /// use tollgate::{Clock, Quota, RateLimiter};
    /// use tollgate_tower::{RetryAfterLayer, ThrottleLayer};
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tower::BoxError> {
    /// let start = Instant::now();
    /// let server = service_fn(move |_: Request<Body>| async move {
    ///     let answer = match start.elapsed().as_secs() {
    ///         0 => Response::builder().status(429).header("retry-after", 60),
    ///         1..60 => panic!("a request during the pause"),
    ///         _ => Response::builder(),
    ///     };
    ///     Ok::<_, Infallible>(answer.body(Body::empty()).unwrap())
    /// });
    /// let rate = Arc::new(RateLimiter::new(Quota::per_second(1)).clock(Clock::tokio()));
    /// let retry = RetryAfterLayer::new().jitter_percent(0).clock(Clock::tokio());
    /// let client = ThrottleLayer::new(rate).errors().layer(retry.innermost().layer(server));
    /// let client = retry.layer(client);
    ///
    /// let get = || client.clone().oneshot(Request::new(Body::empty()));
    /// let (first, second) = tokio::try_join!(get(), get())?;
    /// assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 200));
    /// # Ok(())
    /// # }
    /// ```
    pub fn innermost(&self) -> Self {
        self.clone().retries(0)
    }

    /// Sets the longest pause that a server can ask for, in place of a minute. If it asks for a longer one,
    /// the response is returned at once, and the gate is blocked for `max_wait`: no request waits for
    /// longer at a time, apart from the jitter. So during a longer pause, requests are sent once
    /// each `max_wait`, until the next refusal. With a [paused](Self::pausing) limiter they are sent one by one;
    /// otherwise all requests that wait at the gate are sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use std::time::Duration;
    ///
    /// use axum::body::Body;
    /// use axum::http::{Request, Response};
    /// use tokio::time::Instant;
    /// use tollgate::Clock;
    /// use tollgate_tower::RetryAfterLayer;
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let closed_today = service_fn(async |_: Request<Body>| {
    ///     let refusal = Response::builder().status(503).header("retry-after", 86_400);
    ///     Ok::<_, Infallible>(refusal.body(Body::empty()).unwrap())
    /// });
    /// let patient = RetryAfterLayer::new().max_wait(Duration::from_secs(5)).jitter_percent(0);
    /// let client = patient.clock(Clock::tokio()).layer(closed_today);
    ///
    /// let start = Instant::now();
    /// for wait in [0, 5] {
    ///     let answer = client.clone().oneshot(Request::new(Body::empty())).await?;
    ///     assert_eq!((answer.status().as_u16(), start.elapsed().as_secs()), (503, wait));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// Sets the maximum number of retries of a request, in place of 2. With 0, every response is returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use axum::body::Body;
    /// use tollgate_tower::RetryAfterLayer;
    ///
    /// // Requests wait, and the caller handles refusals.
    /// let layer = RetryAfterLayer::<Body>::new().retries(0);
    /// ```
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the maximum jitter, in percent of the pause that the server asks for, in place of
    /// 10. With 0, pauses are exact.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn jitter_percent(mut self, percent: u8) -> Self {
        self.jitter_percent = percent;
        self
    }

    /// Sets whether an exhausted limit of requests blocks the gate whatever the status is, in place of
    /// only in a refusal. It may be a `RateLimit` with `r=0` or a field of another convention,
    /// such as `x-ratelimit-remaining: 0`. The client then stops before it is refused, and such a response
    /// is returned. Limits of tokens and of other units do not count here, because other requests may need
    /// fewer of them or none.
    ///
    /// Use this if the server has one limit for all requests of the client. If it has several,
    /// a successful answer of a route with an exhausted limit of its own would stop the requests to every
    /// other route, for up to [`max_wait`](Self::max_wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use std::time::Duration;
    ///
    /// use axum::body::Body;
    /// use axum::http::{Request, Response};
    /// use tokio::time::Instant;
    /// use tollgate::Clock;
    /// use tollgate_tower::RetryAfterLayer;
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let last_of_its_quota = service_fn(async |_: Request<Body>| {
    ///     let answer = Response::builder().header("ratelimit", r#""default";r=0;t=5"#);
    ///     Ok::<_, Infallible>(answer.body(Body::empty()).unwrap())
    /// });
    /// let layer = RetryAfterLayer::new().rate_limit_of_any_status(true).jitter_percent(0);
    /// let client = layer.clock(Clock::tokio()).layer(last_of_its_quota);
    ///
    /// let start = Instant::now();
    /// for wait in [0, 5, 10] {
    ///     let answer = client.clone().oneshot(Request::new(Body::empty())).await?;
    ///     assert_eq!((answer.status().as_u16(), start.elapsed().as_secs()), (200, wait));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn rate_limit_of_any_status(mut self, any_status: bool) -> Self {
        self.any_status = any_status;
        self
    }

    /// Sets the maximum number of origins with a gate, in place of 1024. An origin gets its gate when it
    /// asks for a pause. After the pause, each later request drops up to two such gates. When the table is
    /// full, a new gate replaces the one that opens first: requests that wait there keep waiting, and new
    /// requests to that origin do not wait.
    ///
    /// While there are gates, each request takes a lock for a time that is logarithmic in their
    /// number; without gates it takes none.
    ///
    /// This makes new gates: the layer shares none with its earlier clones.
    ///
    /// # Panics
    ///
    /// Panics if `max` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use axum::body::Body;
    /// use tollgate_tower::RetryAfterLayer;
    ///
    /// // For a crawler of very many hosts.
    /// let layer = RetryAfterLayer::<Body>::new().max_origins(100_000);
    /// ```
    #[track_caller]
    pub fn max_origins(mut self, max: usize) -> Self {
        assert!(max > 0, "max_origins cannot be {max}");
        self.origins = Arc::new(Origins::new(max, self.origins.clock().clone()));
        self
    }

    /// Sets the clock of the pauses, in place of [`Clock::default`]. This makes new gates: the
    /// layer shares none with its earlier clones.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.origins = Arc::new(Origins::new(self.origins.max(), clock.into()));
        self
    }

    /// Sets a limiter that is [paused](RateLimiter::pause_for) as long as a gate is blocked. Requests then
    /// wait for their turn rather than at the gate, and leave one by one at the rate after the pause.
    /// At the end of the pause, the first request that the rate admits leaves, together with the requests that
    /// the limiter had admitted before the pause and that wait at the [innermost](Self::innermost) gate.
    /// Use this for the client of one server: each pause of any origin stops all callers of the
    /// limiter. Give both the same clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// use axum::body::Body;
    /// use axum::http::{Request, Response};
    /// use tollgate::{Clock, Quota, RateLimiter};
    /// use tollgate_tower::RetryAfterLayer;
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let busy = service_fn(async |_: Request<Body>| {
    ///     let refusal = Response::builder().status(503).header("retry-after", 5);
    ///     Ok::<_, Infallible>(refusal.body(Body::empty()).unwrap())
    /// });
    /// let clock = Clock::manual();
    /// let rate = Arc::new(RateLimiter::new(Quota::per_second(10)).clock(&clock));
    /// let layer = RetryAfterLayer::new().jitter_percent(0).retries(0).clock(&clock);
    /// let client = layer.pausing(Arc::clone(&rate)).layer(busy);
    ///
    /// client.oneshot(Request::new(Body::empty())).await?;
    /// let refused = rate.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_secs(5)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pausing(mut self, limiter: Arc<RateLimiter>) -> Self {
        self.paused = Some(limiter);
        self
    }

    /// Sets the wall clock for dates in `Retry-After`, in place of [`SystemTime::now`]. It is used if the
    /// response has no `Date`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::SystemTime;
    ///
    /// use axum::body::Body;
    /// use tollgate_tower::RetryAfterLayer;
    ///
    /// // In a test, dates are compared with this time.
    /// let layer = RetryAfterLayer::<Body>::new().wall_clock(|| SystemTime::UNIX_EPOCH);
    /// ```
    pub fn wall_clock(mut self, now: fn() -> SystemTime) -> Self {
        self.wall_clock = now;
        self
    }
}

impl<B> RetryAfterLayer<B> {
    /// Returns a random part of the maximum jitter of this wait.
    fn jitter(&self, wait: Duration) -> Duration {
        let most = (wait / 100).saturating_mul(u32::from(self.jitter_percent));
        most.mul_f64(fraction())
    }
}

/// Returns a random number from 0 to 1.
fn fraction() -> f64 {
    let random = RandomState::new().hash_one(0);
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

impl<B: Body + Default> Default for RetryAfterLayer<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B> Clone for RetryAfterLayer<B> {
    fn clone(&self) -> Self {
        Self {
            origins: Arc::clone(&self.origins),
            paused: self.paused.clone(),
            ..*self
        }
    }
}

impl<B> fmt::Debug for RetryAfterLayer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryAfterLayer")
            .field("max_wait", &self.max_wait)
            .field("retries", &self.retries)
            .field("jitter_percent", &self.jitter_percent)
            .field("any_status", &self.any_status)
            .field("paused", &self.paused)
            .field("max_origins", &self.origins.max())
            .finish_non_exhaustive()
    }
}

impl<S, B> Layer<S> for RetryAfterLayer<B> {
    type Service = RetryAfterService<S, B>;

    fn layer(&self, inner: S) -> Self::Service {
        RetryAfterService {
            inner,
            layer: self.clone(),
        }
    }
}
