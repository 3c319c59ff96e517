//! [`PausesLayer`]: makes clients wait as long as servers ask them to.
//!
//! `service` takes a request through the gate of its origin, the throttle and the inner service. The meaning of a
//! response, and the pauses, are in `tollgate-http`.

mod service;

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use http::{Request, StatusCode};
use http_body::Body;
use tollgate::{Gate, Throttle};
use tollgate_http::{ApiCall, ApiLimits, Pauses, UriOrigin};
use tower_layer::Layer;

pub use self::service::{PausesFuture, PausesService};

/// Makes an HTTP client wait as long as servers ask it to, keep its own limits in the right order, and repeat refused
/// requests. A pause applies to all requests to that server, not only to the refused one.
///
/// [`Pauses`] has the pauses of the servers, and the settings: how long a caller waits, how long a pause lasts, what a
/// refusal without a time means, and how often a request is repeated. All clones of the layer, its services and the
/// `Pauses` share them. An origin is scheme, host and port; requests whose URI has no host share one.
///
/// # Order
///
/// 1. A request waits until its origin is not paused.
/// 2. It enters [the throttle](Self::behind), if there is one, so that a request that waits for a server holds none of
///    the slots that requests to others need. The permit is held to the end of the response body.
/// 3. It enters [the limits of the API](Self::limits), if there are some.
/// 4. The inner service is made ready.
/// 5. The origin is checked once more, because it may have been paused during these waits. If it was, the permit is
///    [rolled back](Throttle::rollback), which returns a slot and refunds a charge, and the request waits again, in
///    its former place.
///
/// So **no request leaves in a pause**, wherever it has waited, if nothing inside of the layer waits.
/// A request that the client has accepted is sent, even if the client must still connect for it.
///
/// # Repeats
///
/// A refused request is repeated after the pause, up to [twice](Pauses::retries) and [within a budget](Pauses), if its
/// method is safe or idempotent (GET, HEAD, OPTIONS, TRACE, PUT, DELETE), or after a 429 whatever the method, because
/// the server has not handled it; [`retry_if`](Self::retry_if) decides otherwise. Its body has to be empty, or
/// [copied](Self::retrying). The body of the refused response is dropped before the wait, and its permit is released. If the
/// request is not repeated, the response is returned.
///
/// # Errors
///
/// The error of the service is a boxed one: [`Paused`](crate::Paused) if the request would wait for longer than it
/// [may](Pauses::max_wait), [`AcquireError`](tollgate::AcquireError) of the throttle, or an error of the inner service.
/// [`Paused::in_chain`](crate::Paused::in_chain) finds the first one behind other errors.
///
/// The waits in the throttle and in the limits of the API do not count, and have no bound: put `tokio::time::timeout`
/// around the call for one.
///
/// # Which clients
///
/// The inner service takes an `http::Request<B>` and is `Clone`. hyper-util's client is such a service. For reqwest, the
/// crate [`tollgate-reqwest`] has a middleware.
///
/// ```
/// use std::sync::Arc;
///
/// use axum::body::Body;
/// use hyper_util::client::legacy::Client;
/// use hyper_util::rt::TokioExecutor;
/// use tollgate::{Quota, RateLimiter, Semaphore, all};
/// use tollgate_tower::{Pauses, PausesLayer};
/// use tower::Layer;
///
/// // 8 requests at once, 10 per second, and none while the server asks for a pause.
/// let slots = Arc::new(Semaphore::new(8));
/// let rate = Arc::new(RateLimiter::new(Quota::per_second(10)));
/// let layer = PausesLayer::<Body>::new(Pauses::new()).behind(all((slots, rate)));
///
/// let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
/// let client = layer.layer(client);
/// # let mut client = client;
/// # drop(tower::Service::call(&mut client, axum::http::Request::new(Body::empty())));
/// ```
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
/// use tollgate_tower::{Paused, Pauses, PausesLayer};
/// use tower::{BoxError, Layer, ServiceExt};
///
/// /// A server that is overloaded at first, and then closes for an hour.
/// async fn page() -> (StatusCode, [(&'static str, &'static str); 1]) {
///     static REQUESTS: AtomicUsize = AtomicUsize::new(0);
///     match REQUESTS.fetch_add(1, Relaxed) {
///         0 => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "5")]),
///         1 => (StatusCode::OK, [("server", "example")]),
///         2 => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "3600")]),
///         _ => panic!("a request in the pause"),
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), BoxError> {
/// let pauses = Pauses::new().jitter_percent(0).clock(Clock::tokio());
/// // Stands in for an HTTP client.
/// let client = PausesLayer::new(pauses).layer(Router::new().route("/", get(page)));
/// let get = || {
///     let request = Request::get("http://example.com/").body(Body::empty());
///     client.clone().oneshot(request.unwrap())
/// };
///
/// let start = Instant::now();
/// assert_eq!(get().await?.status(), StatusCode::OK);
/// assert_eq!(start.elapsed(), Duration::from_secs(5));
///
/// // Nobody waits for an hour: the response is returned, and later requests are refused here.
/// assert_eq!(get().await?.status(), StatusCode::TOO_MANY_REQUESTS);
/// let error = get().await.unwrap_err();
/// let paused = Paused::in_chain(&*error).ok_or("another error")?;
/// assert_eq!(paused.remaining(), Some(Duration::from_secs(3600)));
/// # Ok(())
/// # }
/// ```
///
/// [`tollgate-reqwest`]: https://docs.rs/tollgate-reqwest/latest/tollgate_reqwest/
#[must_use = "a layer does nothing unless it is put around a service"]
pub struct PausesLayer<B, T = Option<Gate>> {
    pauses: Pauses,
    copy_body: fn(&B) -> Option<B>,
    retry_if: Arc<RetryIf>,
    gate_of: Option<Arc<GateOf<B>>>,
    throttle_of: Arc<ThrottleOf<B, T>>,
    limits_of: Option<Arc<LimitsOf<B>>>,
}

type RetryIf = dyn Fn(&Parts, StatusCode) -> bool + Send + Sync;
type GateOf<B> = dyn Fn(&Request<B>) -> String + Send + Sync;
type ThrottleOf<B, T> = dyn Fn(&Request<B>) -> T + Send + Sync;
type LimitsOf<B> = dyn Fn(&Request<B>) -> Option<ApiLimits<Request<B>>> + Send + Sync;

impl<B> PausesLayer<B> {
    /// Creates a layer without a throttle, which repeats requests without a body.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn new(pauses: Pauses) -> Self
    where
        B: Body + Default,
    {
        Self::retrying(pauses, |body| body.is_end_stream().then(B::default))
    }

    /// Creates a layer without a throttle, which repeats requests whose body this function can copy. A request for
    /// which it returns `None` is sent once. The function is called before each attempt except the last one.
    ///
    /// # Examples
    ///
    /// ```
    /// use axum::body::Bytes;
    /// use http_body_util::Full;
    /// use tollgate_tower::{Pauses, PausesLayer};
    ///
    /// // Bodies in memory are cheap to clone.
    /// let layer = PausesLayer::retrying(Pauses::new(), |body: &Full<Bytes>| Some(body.clone()));
    /// ```
    pub fn retrying(pauses: Pauses, copy_body: fn(&B) -> Option<B>) -> Self {
        Self {
            pauses,
            copy_body,
            retry_if: Arc::new(|request, status| {
                request.method.is_idempotent() || status == StatusCode::TOO_MANY_REQUESTS
            }),
            gate_of: None,
            throttle_of: Arc::new(|_| None),
            limits_of: None,
        }
    }
}

impl<B, T> PausesLayer<B, T> {
    /// Puts the requests behind a throttle, in place of none. It can be any one, for example [`all`](tollgate::all)
    /// of the slots and the rate.
    ///
    /// # Examples
    ///
    /// See [the type](Self#which-clients).
    pub fn behind<U>(self, throttle: U) -> PausesLayer<B, U>
    where
        U: Throttle + Send + Sync + 'static,
    {
        self.behind_by(move |_| throttle.clone())
    }

    /// Puts each request behind a throttle that the closure returns, in place of none. Put the narrow limits first,
    /// so that a request that waits for its host holds none of the slots of all.
    ///
    /// # Examples
    ///
    /// One request at once to each host, one in two seconds, and 64 to all hosts:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// use axum::body::Body;
    /// use axum::http::Request;
    /// use tollgate::{Keyed, Quota, Semaphore, all};
    /// use tollgate_http::UriOrigin;
    /// use tollgate_tower::{Pauses, PausesLayer};
    ///
    /// let hosts = Arc::new(Keyed::semaphores(1));
    /// let rates = Arc::new(Keyed::rate_limiters(Quota::per_minute(30)));
    /// let total = Arc::new(Semaphore::new(64));
    /// let layer = PausesLayer::<Body>::new(Pauses::new()).behind_by(move |request: &Request<_>| {
    ///     let host = UriOrigin::of(request.uri()).to_string();
    ///     all((
    ///         Arc::clone(&hosts).key_owned(host.clone()),
    ///         Arc::clone(&rates).key_owned(host),
    ///         Arc::clone(&total),
    ///     ))
    /// });
    /// ```
    pub fn behind_by<U>(
        self,
        throttle_of: impl Fn(&Request<B>) -> U + Send + Sync + 'static,
    ) -> PausesLayer<B, U>
    where
        U: Throttle,
    {
        PausesLayer {
            pauses: self.pauses,
            copy_body: self.copy_body,
            retry_if: self.retry_if,
            gate_of: self.gate_of,
            throttle_of: Arc::new(throttle_of),
            limits_of: self.limits_of,
        }
    }

    /// Keeps the limits of an API as its server counts them. A request enters them after the [throttle](Self::behind), so
    /// one that waits for a slot is not charged. Each response is [read](tollgate_http::ApiCharges::answered); if a limit
    /// is held until the usage is known, the response has a [`Usage`](crate::Usage) in its extensions.
    ///
    /// # Examples
    ///
    /// 500 requests and 90,000 tokens a minute:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use axum::body::Bytes;
    /// use axum::http::Request;
    /// use http_body_util::Full;
    /// use tollgate_tower::server_limits::Unit;
    /// use tollgate_tower::{ApiLimit, ApiLimits, Pauses, PausesLayer, Usage};
    ///
    /// const MINUTE: Duration = Duration::from_secs(60);
    ///
    /// /// The tokens of the prompt, and those of the longest answer.
    /// fn estimate(request: &Request<Full<Bytes>>) -> u64 {
    ///     # let _ = request;
    ///     500 + 1_000
    /// }
    ///
    /// let requests = ApiLimit::new(Unit::Requests, 500, MINUTE);
    /// let tokens = ApiLimit::new(Unit::Tokens, 90_000, MINUTE).hold(estimate);
    /// let layer = PausesLayer::retrying(Pauses::new(), |body: &Full<Bytes>| Some(body.clone()))
    ///     .limits(ApiLimits::new([requests, tokens]));
    ///
    /// // Take the handle out before the body is read.
    /// let response = http::Response::new(());
    /// if let Some(usage) = response.extensions().get::<Usage>().cloned() {
    ///     // What the body reports.
    ///     usage.settle(Unit::Tokens, 712);
    /// }
    /// # drop(layer);
    /// ```
    pub fn limits(self, limits: ApiLimits<Request<B>>) -> Self
    where
        B: 'static,
    {
        self.limits_by(move |_| Some(limits.clone()))
    }

    /// Keeps the [limits](Self::limits) that a closure returns for each request, for example those of its model. A request for
    /// which it returns `None` has no such limits.
    ///
    /// # Examples
    ///
    /// A provider limits each of its models apart:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use axum::body::Body;
    /// use axum::http::Request;
    /// use tollgate_tower::server_limits::Unit;
    /// use tollgate_tower::{ApiLimit, ApiLimits, Pauses, PausesLayer};
    ///
    /// fn requests(limit: u64) -> ApiLimits<Request<Body>> {
    ///     ApiLimits::new([ApiLimit::new(Unit::Requests, limit, Duration::from_secs(60))])
    /// }
    ///
    /// let (small, large) = (requests(5_000), requests(500));
    /// let layer = PausesLayer::<Body>::new(Pauses::new()).limits_by(move |request| {
    ///     match request.headers().get("x-model")?.as_bytes() {
    ///         b"small" => Some(small.clone()),
    ///         b"large" => Some(large.clone()),
    ///         _ => None,
    ///     }
    /// });
    /// ```
    pub fn limits_by(
        mut self,
        limits_of: impl Fn(&Request<B>) -> Option<ApiLimits<Request<B>>> + Send + Sync + 'static,
    ) -> Self {
        self.limits_of = Some(Arc::new(limits_of));
        self
    }

    /// Sets a closure that returns the name of what a refusal pauses, in place of the origin of the request. Use it if
    /// some paths of a server have limits of their own.
    ///
    /// # Examples
    ///
    /// GitHub's search has another limit than the rest of its API:
    ///
    /// ```
    /// use axum::body::Body;
    /// use axum::http::Request;
    /// use tollgate_tower::{Pauses, PausesLayer};
    ///
    /// let layer = PausesLayer::<Body>::new(Pauses::new()).gate_by(|request: &Request<_>| {
    ///     let is_search = request.uri().path().starts_with("/search/");
    ///     if is_search { "search" } else { "other" }.to_owned()
    /// });
    /// ```
    pub fn gate_by(
        mut self,
        gate_of: impl Fn(&Request<B>) -> String + Send + Sync + 'static,
    ) -> Self {
        self.gate_of = Some(Arc::new(gate_of));
        self
    }

    /// Sets which refused requests are repeated, by the request and the status of the refusal, in place of idempotent
    /// ones, and any after a 429.
    ///
    /// # Examples
    ///
    /// ```
    /// use axum::body::Body;
    /// use tollgate_tower::{Pauses, PausesLayer};
    ///
    /// // An API whose POSTs have keys that make them idempotent.
    /// let layer = PausesLayer::<Body>::new(Pauses::new()).retry_if(|request, _| {
    ///     request.method.is_idempotent() || request.headers.contains_key("idempotency-key")
    /// });
    /// ```
    pub fn retry_if(
        mut self,
        retry_if: impl Fn(&Parts, StatusCode) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.retry_if = Arc::new(retry_if);
        self
    }

    /// Returns the limits of an API for a request.
    fn limits_of(&self, request: &Request<B>) -> Option<ApiCall> {
        let limits = self.limits_of.as_ref()?(request)?;
        Some(limits.call(request))
    }

    /// Returns the name of the gate of a request.
    fn gate(&self, request: &Request<B>) -> GateName {
        match &self.gate_of {
            Some(gate_of) => GateName::Given(gate_of(request)),
            None => GateName::Origin(UriOrigin::of(request.uri())),
        }
    }
}

/// The name of what a refusal pauses.
enum GateName {
    Origin(UriOrigin),
    Given(String),
}

impl fmt::Display for GateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin(origin) => origin.fmt(f),
            Self::Given(name) => f.write_str(name),
        }
    }
}

impl<B, T> Clone for PausesLayer<B, T> {
    fn clone(&self) -> Self {
        Self {
            pauses: self.pauses.clone(),
            copy_body: self.copy_body,
            retry_if: Arc::clone(&self.retry_if),
            gate_of: self.gate_of.clone(),
            throttle_of: Arc::clone(&self.throttle_of),
            limits_of: self.limits_of.clone(),
        }
    }
}

impl<B, T> fmt::Debug for PausesLayer<B, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PausesLayer")
            .field("pauses", &self.pauses)
            .finish_non_exhaustive()
    }
}

impl<S, B, T> Layer<S> for PausesLayer<B, T> {
    type Service = PausesService<S, B, T>;

    fn layer(&self, inner: S) -> Self::Service {
        PausesService {
            inner,
            layer: Arc::new(self.clone()),
        }
    }
}
