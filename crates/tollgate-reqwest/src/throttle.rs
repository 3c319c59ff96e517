//! Requests behind a throttle: a request enters, is sent, and holds its permit until the end of the response
//! body.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Body, Request, Response, ResponseBuilderExt};
use reqwest_middleware::{Error, Middleware, Next};
use tollgate::Throttle;
use tollgate::throttle::{Adaptive, Feedback};
use tollgate_tower::ThrottledBody;

/// Puts the requests of a client behind a throttle: each waits until it is admitted, in the order of the throttle.
///
/// The permit is held until the body of the response has been read, has failed, or has been dropped; or only [until
/// the head](Self::until_head). The charge of a rate limiter stays once a request has been admitted. A request enters
/// several middleware of this kind one after the other, in the order in which they were added; to enter all limits
/// together, give one middleware an [`all`](tollgate::all) of them.
///
/// A response of 101 has no body, so the permit is returned at its head, and an [upgraded](Response::upgrade) connection
/// holds none. To limit such connections, acquire a permit beside the request and keep it with the connection.
///
/// Clones share the throttle.
///
/// # Errors
///
/// A request that is not admitted fails with [`Error::Middleware`], and [`is::<AcquireError>()`](tollgate::AcquireError)
/// is true for the inner error. Print it by `{error}`: its `Debug` has a backtrace if `RUST_BACKTRACE` is set.
///
/// ```
/// use std::sync::Arc;
///
/// use reqwest_middleware::{ClientBuilder, Error};
/// use tollgate::{AcquireError, ErrorKind, Semaphore};
/// use tollgate_reqwest::ThrottleMiddleware;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let _ = rustls::crypto::ring::default_provider().install_default();
/// let slots = Arc::new(Semaphore::new(0).max_waiters(0));
/// let client = ClientBuilder::new(reqwest::Client::new())
///     .with(ThrottleMiddleware::new(slots))
///     .build();
///
/// let Err(Error::Middleware(error)) = client.get("http://127.0.0.1").send().await else {
///     panic!("there is no slot");
/// };
/// let error: &AcquireError = error.downcast_ref().unwrap();
/// assert_eq!(error.kind(), ErrorKind::QueueFull);
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future of a request removes it from the queue, or drops the request and returns its permit. A server may
/// notice that late, and then works on one request more than there are permits.
pub struct ThrottleMiddleware<T: Throttle> {
    choose: Arc<dyn Fn(&Request) -> T + Send + Sync>,
    timeout: Option<Duration>,
    until_head: bool,
    learn: Option<Arc<Learn<T>>>,
}

/// Reports an answer to the throttle; `None` if the request was dropped before.
type Learn<T> =
    dyn Fn(&T, &mut <T as Throttle>::Permit, Option<Result<&Response, &Error>>) + Send + Sync;

impl<T: Throttle> ThrottleMiddleware<T> {
    /// Creates a middleware with one throttle for all requests, such as an `Arc<RateLimiter>` or an
    /// `Arc<Semaphore>`.
    ///
    /// # Examples
    ///
    /// See [the crate](crate).
    pub fn new(throttle: T) -> Self
    where
        T: Send + Sync + 'static,
    {
        Self::by(move |_| throttle.clone())
    }

    /// Creates a middleware whose closure returns the throttle of each request, for example a
    /// [key](tollgate::Keyed::key_owned) for its host. If it returns `None`, the request is admitted.
    ///
    /// # Examples
    ///
    /// See [the crate](crate#limits-by-host-and-by-route).
    pub fn by(choose: impl Fn(&Request) -> T + Send + Sync + 'static) -> Self {
        Self {
            choose: Arc::new(choose),
            timeout: None,
            until_head: false,
            learn: None,
        }
    }

    /// Makes a request fail when it has waited for its permit for `duration`, or earlier if the throttle knows that the
    /// wait would be longer. Reqwest's own timeouts begin after the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// use tollgate::Semaphore;
    /// use tollgate_reqwest::ThrottleMiddleware;
    ///
    /// let slots = Arc::new(Semaphore::new(8).max_waiters(1000));
    /// let throttle = ThrottleMiddleware::new(slots).timeout(Duration::from_secs(30));
    /// ```
    #[must_use]
    pub fn timeout(mut self, duration: Duration) -> Self {
        self.timeout = Some(duration);
        self
    }

    /// Returns the permit of a request when the head of its response has arrived, not after its body, for
    /// bodies that are endless streams.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use tollgate::Semaphore;
    /// use tollgate_reqwest::ThrottleMiddleware;
    ///
    /// let calls = ThrottleMiddleware::new(Arc::new(Semaphore::new(8))).until_head();
    /// ```
    #[must_use]
    pub fn until_head(mut self) -> Self {
        self.until_head = true;
        self
    }

    /// Reports the outcome of each request to an adaptive throttle, by the head of its response or its error;
    /// [`feedback`](crate::feedback) classifies responses. A request that is dropped before is
    /// [ignored](Feedback::Ignored).
    ///
    /// The latency is measured to the head. Without [`until_head`](Self::until_head) the limit also counts the calls whose
    /// body is being read. A connection that is refused says nothing about the load of a server: ignore it.
    ///
    /// # Examples
    ///
    /// ```
    /// use reqwest_middleware::Error;
    /// use tollgate::throttle::Feedback;
    /// use tollgate_adaptive::{AdaptiveSemaphore, Shared};
    /// use tollgate_reqwest::{ThrottleMiddleware, feedback};
    ///
    /// let backend = Shared::from(AdaptiveSemaphore::default());
    /// let throttle = ThrottleMiddleware::new(backend)
    ///     .until_head()
    ///     .classify(|answer| match answer {
    ///         Ok(response) => feedback(response),
    ///         Err(Error::Reqwest(error)) if error.is_connect() => Feedback::Ignored,
    ///         Err(_) => Feedback::OVERLOADED,
    ///     });
    /// ```
    #[must_use]
    pub fn classify<C>(mut self, classify: C) -> Self
    where
        T: Adaptive,
        C: Fn(Result<&Response, &Error>) -> Feedback + Send + Sync + 'static,
    {
        self.learn = Some(Arc::new(move |throttle: &T, permit, answered| {
            throttle.learn(permit, answered.map_or(Feedback::Ignored, &classify));
        }));
        self
    }
}

/// A request that was admitted. Dropping it reports that there was no answer, and returns the permit.
struct Sent<'a, T: Throttle> {
    throttle: T,
    permit: Option<T::Permit>,
    learn: Option<&'a Learn<T>>,
}

impl<T: Throttle> Sent<'_, T> {
    fn end(&mut self, answered: Option<Result<&Response, &Error>>) -> Option<T::Permit> {
        let mut permit = self.permit.take();
        if let (Some(learn), Some(permit)) = (self.learn, &mut permit) {
            learn(&self.throttle, permit, answered);
        }
        permit
    }
}

impl<T: Throttle> Drop for Sent<'_, T> {
    fn drop(&mut self) {
        let _ = self.end(None);
    }
}

#[async_trait]
impl<T> Middleware for ThrottleMiddleware<T>
where
    T: Throttle<Enter: Send, Permit: Send + 'static> + Send + 'static,
{
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response, Error> {
        let throttle = (self.choose)(&request);
        let enter = throttle.enter();
        let entered = match self.timeout {
            None => enter.await,
            Some(duration) => enter.timeout(duration).await,
        };
        let permit = Some(entered.map_err(Error::middleware)?);
        let learn = self.learn.as_deref();
        let mut sent = Sent {
            throttle,
            permit,
            learn,
        };
        // The work is dropped before the permit.
        let answer = next.run(request, extensions).await;
        let permit = sent.end(Some(answer.as_ref()));
        let held = permit.filter(|_| !self.until_head);
        answer.map(|answer| match held {
            Some(permit) => holding(answer, permit),
            None => answer,
        })
    }
}

/// Moves the permit into the body of a response.
pub(crate) fn holding<P: Send + 'static>(answer: Response, permit: P) -> Response {
    // A body of reqwest has to be `Sync`, and a permit need not be, such as that of a `BoxThrottle`. Nobody locks it.
    let permit = Some(Mutex::new(permit));
    let (answer, body) = with_body(answer);
    answer(Body::wrap(ThrottledBody::holding(body, permit)))
}

/// Takes the body out of a response. Returns the rest as a function of the new body.
pub(crate) fn with_body(answer: Response) -> (impl FnOnce(Body) -> Response, Body) {
    // The conversion through `http` loses the URL of a response.
    let url = http::Response::builder().url(answer.url().clone());
    let (url, ()) = url.body(()).expect("it has nothing invalid").into_parts();
    let (mut head, body) = http::Response::<Body>::from(answer).into_parts();
    head.extensions.extend(url.extensions);
    let answer = |body| Response::from(http::Response::from_parts(head, body));
    (answer, body)
}

impl<T: Throttle> Clone for ThrottleMiddleware<T> {
    fn clone(&self) -> Self {
        Self {
            choose: Arc::clone(&self.choose),
            learn: self.learn.clone(),
            ..*self
        }
    }
}

impl<T: Throttle> fmt::Debug for ThrottleMiddleware<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleMiddleware")
            .field("timeout", &self.timeout)
            .field("until_head", &self.until_head)
            .finish_non_exhaustive()
    }
}
