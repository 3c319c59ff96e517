//! Requests that wait for as long as servers ask. `tollgate-http` decides the meaning of a response.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use http::{Extensions, StatusCode};
use reqwest::{Request, Response, Url, redirect};
use reqwest_middleware::{Error, Middleware, Next, Result};
use tollgate::throttle::RollbackGuard;
use tollgate::{Gate, Throttle};
use tollgate_http::{ApiLimits, NextStep, Paused, Pauses};

use crate::refusals::Refusals;
use crate::throttle::holding;

/// Makes a client wait for as long as a server asks, keep its own limits in the right order, and repeat refused
/// requests. A pause applies to all requests to that server, not only to the refused one.
///
/// [`Pauses`] has the pauses of the servers, and the settings: how long a caller waits, how long a pause lasts, what a
/// refusal without a time means, and how often a request is repeated. All clones of the middleware and the `Pauses` share
/// them. Their names are [scheme, host and port](origin).
///
/// # Order
///
/// 1. A request waits until its origin is not paused.
/// 2. It enters [the throttle](Self::behind), if there is one, so that a request that waits for a server holds none of
///    the slots that requests to others need. The permit is held to the end of the response body.
/// 3. It enters [the limits of the API](Self::limits), if there are some.
/// 4. The origin is checked once more, because it may have been paused during that wait. If it was, the permit is
///    [rolled back](Throttle::rollback), which returns a slot and refunds a charge, and the request waits again, in
///    its former place.
///
/// So **no request is sent in a pause**, if this is the last middleware that waits: add it after all others that
/// do. A request that reqwest has accepted is sent, even if reqwest is still connecting.
///
/// # Repeats
///
/// A refused request is repeated after the pause, up to [twice](Pauses::retries) and [within a budget](Pauses), if it
/// [can be cloned](Request::try_clone) and its method is safe or idempotent, or after a 429 whatever the method, because
/// the server has not handled it; [`retry_if`](Self::retry_if) decides otherwise. The refused response is dropped
/// before the wait. If the request is not repeated, the response is returned.
///
/// # Redirects
///
/// reqwest follows redirects below all middleware. A refusal pauses the origin that refused, also after a redirect. A
/// client with the [`redirect_policy`](Self::redirect_policy) of the middleware follows no redirect into a paused origin;
/// without it, such hops are sent in a pause.
///
/// # Errors
///
/// A request that would wait for longer than it [may](Pauses::max_wait) fails with [`Paused`], and one that the throttle
/// does not admit with [`AcquireError`](tollgate::AcquireError), as [with
/// `ThrottleMiddleware`](crate::ThrottleMiddleware#errors). [`Paused::in_chain`] finds the first one, also in the error of a
/// redirect:
///
/// ```
/// use std::time::Duration;
///
/// use reqwest_middleware::ClientBuilder;
/// use tollgate_reqwest::{Paused, Pauses, PausesMiddleware};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let _ = rustls::crypto::ring::default_provider().install_default();
/// let pauses = Pauses::new();
/// let client = ClientBuilder::new(reqwest::Client::new())
///     .with(PausesMiddleware::new(pauses.clone()))
///     .build();
///
/// pauses.pause("http://127.0.0.1:3000", Duration::from_secs(3600));
/// let error = client.get("http://127.0.0.1:3000/").send().await.unwrap_err();
/// let paused = Paused::in_chain(&error).expect("a pause");
/// assert!(paused.remaining().unwrap() > Duration::from_secs(3500));
/// # }
/// ```
///
/// The waits in the throttle and in the limits of the API do not count, and have no bound: put `tokio::time::timeout`
/// around `send` for one.
///
/// # Cancel safety
///
/// Dropping the future of a request gives up its place, and rolls its permit back if it was not sent. Otherwise it drops
/// the request, and returns its permit.
pub struct PausesMiddleware<T: Throttle = Option<Gate>> {
    pauses: Pauses,
    retry_if: Arc<RetryIf>,
    gate_of: Arc<GateOf>,
    throttle_of: Option<Arc<ThrottleOf<T>>>,
    limits_of: Option<Arc<LimitsOf>>,
    on_answer: Option<Arc<OnAnswer<T>>>,
    refusals: Option<Refusals>,
}

type RetryIf = dyn Fn(&Request, StatusCode) -> bool + Send + Sync;
type GateOf = dyn Fn(&Url) -> String + Send + Sync;
type ThrottleOf<T> = dyn Fn(&Request) -> T + Send + Sync;
type LimitsOf = dyn Fn(&Request) -> Option<ApiLimits<Request>> + Send + Sync;
type OnAnswer<T> = dyn Fn(&mut <T as Throttle>::Permit, &Response, Duration) + Send + Sync;

impl PausesMiddleware {
    /// Creates a middleware without a throttle.
    ///
    /// # Examples
    ///
    /// See [the crate](crate).
    pub fn new(pauses: Pauses) -> Self {
        Self {
            pauses,
            retry_if: Arc::new(|request, status| {
                request.method().is_idempotent() || status == StatusCode::TOO_MANY_REQUESTS
            }),
            gate_of: Arc::new(origin),
            throttle_of: None,
            limits_of: None,
            on_answer: None,
            refusals: None,
        }
    }
}

impl<T: Throttle> PausesMiddleware<T> {
    /// Puts the requests behind a throttle, in place of none. It can be any one, for example [`all`](tollgate::all)
    /// of the slots and the rate.
    ///
    /// # Examples
    ///
    /// See [the crate](crate#a-client-that-keeps-all-limits).
    #[must_use]
    pub fn behind<U>(self, throttle: U) -> PausesMiddleware<U>
    where
        U: Throttle + Send + Sync + 'static,
    {
        self.behind_by(move |_| throttle.clone())
    }

    /// Puts each request behind a throttle that the closure returns, in place of none. Put the narrow limits first, so that a
    /// request that waits for its host holds none of the slots of all.
    ///
    /// # Examples
    ///
    /// See [the crate](crate#limits-by-host-and-by-route).
    #[must_use]
    pub fn behind_by<U: Throttle>(
        self,
        throttle_of: impl Fn(&Request) -> U + Send + Sync + 'static,
    ) -> PausesMiddleware<U> {
        PausesMiddleware {
            pauses: self.pauses,
            retry_if: self.retry_if,
            gate_of: self.gate_of,
            throttle_of: Some(Arc::new(throttle_of)),
            limits_of: self.limits_of,
            on_answer: None,
            refusals: self.refusals,
        }
    }

    /// Understands refusals that ask for a wait in their body, in place of a field.
    ///
    /// # Examples
    ///
    /// See [`Refusals`].
    #[must_use]
    pub fn refusals(mut self, refusals: Refusals) -> Self {
        self.refusals = Some(refusals);
        self
    }

    /// Sets a closure that is called with the permit of each request when its response has begun, for example to keep the
    /// permit of a slow host for longer. It gets the time since the request was sent. Call it after
    /// [`behind`](Self::behind).
    ///
    /// # Examples
    ///
    /// One request at once to each host, which then rests for at least two seconds, and for as long as a success took; and
    /// 64 requests to all hosts:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// use tollgate::semaphore::Resting;
    /// use tollgate::{Keyed, Semaphore, all};
    /// use tollgate_reqwest::{Pauses, PausesMiddleware, origin};
    ///
    /// const REST: Duration = Duration::from_secs(2);
    ///
    /// let (hosts, total) = (Arc::new(Keyed::semaphores(1)), Arc::new(Semaphore::new(64)));
    /// let middleware = PausesMiddleware::new(Pauses::new())
    ///     .behind_by(move |request| {
    ///         let host = Arc::clone(&hosts).key_owned(origin(request.url()));
    ///         all((Resting::new(host, REST), Arc::clone(&total)))
    ///     })
    ///     .on_answer(|(host, _total), response, latency| {
    ///         if response.status().is_success() {
    ///             host.set_duration(latency.max(host.duration()));
    ///         }
    ///     });
    /// ```
    #[must_use]
    pub fn on_answer(
        mut self,
        on_answer: impl Fn(&mut T::Permit, &Response, Duration) + Send + Sync + 'static,
    ) -> Self {
        self.on_answer = Some(Arc::new(on_answer));
        self
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
    /// use reqwest::{Request, Response};
    /// use tollgate_reqwest::server_limits::Unit;
    /// use tollgate_reqwest::{ApiLimit, ApiLimits, Pauses, PausesMiddleware, Usage};
    ///
    /// const MINUTE: Duration = Duration::from_secs(60);
    ///
    /// /// The tokens of the prompt, and those of the longest answer.
    /// fn estimate(request: &Request) -> u64 {
    ///     let body = request.body().and_then(|body| body.as_bytes());
    ///     body.map_or(0, |body| body.len() as u64 / 4) + 1_000
    /// }
    ///
    /// let requests = ApiLimit::new(Unit::Requests, 500, MINUTE);
    /// let tokens = ApiLimit::new(Unit::Tokens, 90_000, MINUTE).hold(estimate);
    /// let limits = ApiLimits::new([requests, tokens]);
    /// let middleware = PausesMiddleware::new(Pauses::new()).limits(limits);
    ///
    /// async fn read(response: Response) -> reqwest::Result<String> {
    ///     // Take the handle out before the body is read.
    ///     let usage = response.extensions().get::<Usage>().cloned();
    ///     let text = response.text().await?;
    ///     if let Some(usage) = usage {
    ///         // What the text reports.
    ///         usage.settle(Unit::Tokens, 712);
    ///     }
    ///     Ok(text)
    /// }
    /// # drop(middleware);
    /// # drop(read);
    /// ```
    #[must_use]
    pub fn limits(self, limits: ApiLimits<Request>) -> Self {
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
    /// use reqwest::Request;
    /// use tollgate_reqwest::server_limits::Unit;
    /// use tollgate_reqwest::{ApiLimit, ApiLimits, Pauses, PausesMiddleware};
    ///
    /// fn requests(limit: u64) -> ApiLimits<Request> {
    ///     ApiLimits::new([ApiLimit::new(Unit::Requests, limit, Duration::from_secs(60))])
    /// }
    ///
    /// let (small, large) = (requests(5_000), requests(500));
    /// let middleware = PausesMiddleware::new(Pauses::new()).limits_by(move |request| {
    ///     match request.headers().get("x-model")?.as_bytes() {
    ///         b"small" => Some(small.clone()),
    ///         b"large" => Some(large.clone()),
    ///         _ => None,
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn limits_by(
        mut self,
        limits_of: impl Fn(&Request) -> Option<ApiLimits<Request>> + Send + Sync + 'static,
    ) -> Self {
        self.limits_of = Some(Arc::new(limits_of));
        self
    }

    /// Sets a closure that returns the name of what a refusal pauses, in place of the [`origin`] of the URL. Use it if some
    /// paths of a server have limits of their own. It is also called with the URL of a response. A refusal that is about all
    /// paths, such as that of a secondary limit of GitHub, pauses only the name of the request that it met.
    ///
    /// # Examples
    ///
    /// GitHub's search has another limit than the rest of its API:
    ///
    /// ```
    /// use tollgate_reqwest::{Pauses, PausesMiddleware, origin};
    ///
    /// let middleware = PausesMiddleware::new(Pauses::new()).gate_by(|url| {
    ///     let is_search = url.path().starts_with("/search/");
    ///     origin(url) + if is_search { "/search" } else { "" }
    /// });
    /// ```
    #[must_use]
    pub fn gate_by(mut self, gate_of: impl Fn(&Url) -> String + Send + Sync + 'static) -> Self {
        self.gate_of = Arc::new(gate_of);
        self
    }

    /// Sets which refused requests are repeated, by the request and the status of the refusal, in place of idempotent
    /// ones, and any after a 429.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_reqwest::{Pauses, PausesMiddleware};
    ///
    /// // An API whose POSTs have keys that make them idempotent.
    /// let middleware = PausesMiddleware::new(Pauses::new()).retry_if(|request, _| {
    ///     request.method().is_idempotent() || request.headers().contains_key("idempotency-key")
    /// });
    /// ```
    #[must_use]
    pub fn retry_if(
        mut self,
        retry_if: impl Fn(&Request, StatusCode) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.retry_if = Arc::new(retry_if);
        self
    }

    /// Returns a policy that follows redirects like the default one, but none into an origin that is paused: such a request
    /// fails, and [`Paused::in_chain`] finds the pause.
    ///
    /// Requests that follow redirects do not count while an origin opens step by step after a pause. Call it after
    /// [`gate_by`](Self::gate_by).
    ///
    /// # Examples
    ///
    /// ```
    /// use reqwest_middleware::ClientBuilder;
    /// use tollgate_reqwest::{Pauses, PausesMiddleware};
    ///
    /// # fn main() -> reqwest::Result<()> {
    /// # let _ = rustls::crypto::ring::default_provider().install_default();
    /// let middleware = PausesMiddleware::new(Pauses::new());
    /// let client = reqwest::Client::builder().redirect(middleware.redirect_policy());
    /// let client = ClientBuilder::new(client.build()?).with(middleware).build();
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    pub fn redirect_policy(&self) -> redirect::Policy {
        let (pauses, gate_of) = (self.pauses.clone(), Arc::clone(&self.gate_of));
        redirect::Policy::custom(move |attempt| match pauses.check(gate_of(attempt.url())) {
            Ok(()) => redirect::Policy::default().redirect(attempt),
            Err(paused) => attempt.error(paused),
        })
    }

    /// Returns the name of the gate of the server that responded. After a redirect it is not the requested one.
    fn gate_of_response(&self, response: &Response) -> Option<String> {
        // The URL that reqwest invents if another middleware has created the response without a URL.
        let is_invented = response.url().host_str() == Some("no.url.provided.local");
        (!is_invented).then(|| (self.gate_of)(response.url()))
    }
}

#[async_trait]
impl<T> Middleware for PausesMiddleware<T>
where
    T: Throttle<Enter: Send, Permit: Send + 'static> + Send + Sync + 'static,
{
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let gate = (self.gate_of)(request.url());
        let mut call = self.pauses.call(&gate);
        let throttle = self.throttle_of.as_ref().map(|of| of(&request));
        let limits = self.limits_of.as_ref().and_then(|of| of(&request));
        let limits = limits.map(|it| it.call(&request));
        loop {
            let ready = call.ready().await;
            ready.map_err(|paused| Error::middleware(NotSent(paused)))?;
            let permit = throttle.enter().await.map_err(Error::middleware)?;
            let permit = RollbackGuard::new(&throttle, permit);
            let charges = limits.enter().await.map_err(Error::middleware)?;
            let charges = RollbackGuard::new(&limits, charges);
            if !call.send() {
                continue;
            }
            // If the copy panics, all is still rolled back.
            let copy = call.has_retries_left().then(|| request.try_clone());
            let copy = copy.flatten();
            let (charges, mut permit) = (charges.disarm(), permit.disarm());
            let mut response = next.clone().run(request, extensions).await?;
            let arrived = SystemTime::now();
            if let (Some(on_answer), Some(permit)) = (&self.on_answer, &mut permit) {
                on_answer(permit, &response, call.latency().unwrap_or_default());
            }
            let mut class = self.pauses.class(response.status(), response.headers());
            if let Some(refusals) = &self.refusals {
                (response, class) = refusals.read(response, class).await;
            }
            let (status, headers) = (response.status(), response.headers());
            let usage = charges.map(|it| it.answered(status, headers, class, arrived));
            let may_retry = copy.as_ref().is_some_and(|it| (self.retry_if)(it, status));
            let responded = self.gate_of_response(&response);
            let responded = responded.as_ref().unwrap_or(&gate);
            let step = call.answered_by(responded, status, headers, class, may_retry);
            if let Some(usage) = usage.filter(|usage| !usage.is_settled()) {
                response.extensions_mut().insert(usage);
            }
            match (step, copy) {
                // The resources of the refusal are free during the wait.
                (NextStep::Retry, Some(copy)) => request = copy,
                _ if permit.is_some() => return Ok(holding(response, permit)),
                _ => return Ok(response),
            }
        }
    }
}

impl<T: Throttle> Clone for PausesMiddleware<T> {
    fn clone(&self) -> Self {
        Self {
            pauses: self.pauses.clone(),
            retry_if: Arc::clone(&self.retry_if),
            gate_of: Arc::clone(&self.gate_of),
            throttle_of: self.throttle_of.clone(),
            limits_of: self.limits_of.clone(),
            on_answer: self.on_answer.clone(),
            refusals: self.refusals.clone(),
        }
    }
}

impl<T: Throttle> fmt::Debug for PausesMiddleware<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PausesMiddleware")
            .field("pauses", &self.pauses)
            .finish_non_exhaustive()
    }
}

/// The error of a request that is refused locally. `reqwest_middleware::Error` hides the error that it is made of from
/// its [`source`](StdError::source), so a `Paused` alone would not be in the chain.
#[derive(Debug)]
struct NotSent(Paused);

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was not sent")
    }
}

impl StdError for NotSent {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// Returns the origin of a URL as [`Pauses`] names it: scheme, host and port, also if it is the default one.
///
/// # Examples
///
/// ```
/// let url = "https://example.com/page".parse()?;
/// assert_eq!(tollgate_reqwest::origin(&url), "https://example.com:443");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn origin(url: &Url) -> String {
    let (scheme, host) = (url.scheme(), url.host_str().unwrap_or_default());
    match url.port_or_known_default() {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}
