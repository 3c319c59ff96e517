//! The layer, and its options.

use std::time::Duration;

use http::StatusCode;
use tower_layer::Layer;

use super::ThrottleService;
use super::entering::Patience;
use crate::throttle::{Throttle, TryThrottle};

/// Puts services behind a throttle. See [the module](crate::tower) for its behavior.
///
/// Servers need services that are `'static`, so use a throttle that owns what it needs: an
/// `Arc<Semaphore>`, a throttle in a `static`, an [`all`](crate::all) of these, or a
/// [`BoxThrottle`](crate::BoxThrottle). Clones of the layer share the throttle.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use axum::Router;
/// use axum::routing::get;
/// use tollgate::tower::ThrottleLayer;
/// use tollgate::{Semaphore, all};
///
/// // 64 requests at once, of which 8 are reports; 256 more may wait.
/// let everything = Arc::new(Semaphore::new(64).max_waiters(256));
/// let reports = Arc::new(Semaphore::new(8));
/// let app: Router = Router::new()
///     .route("/users", get(async || "users"))
///     .layer(ThrottleLayer::new(Arc::clone(&everything)))
///     .merge(
///         Router::new()
///             .route("/report", get(async || "a report"))
///             .layer(ThrottleLayer::new(all((reports, everything)))),
///     );
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing unless it is put around a service"]
pub struct ThrottleLayer<T: Throttle> {
    pub(super) throttle: T,
    pub(super) patience: Patience<T>,
    /// The status of a rejection after which the client may try again.
    pub(super) status: StatusCode,
}

impl<T: Throttle> ThrottleLayer<T> {
    /// Creates a layer whose requests wait until the throttle admits them. To bound the number of
    /// waiters, bound the queue of the throttle, for example with
    /// [`max_waiters`](crate::Semaphore::max_waiters). To bound the wait, add a
    /// [`timeout`](Self::timeout).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Semaphore;
    /// use tollgate::tower::ThrottleLayer;
    ///
    /// let layer = ThrottleLayer::new(Arc::new(Semaphore::new(64).max_waiters(256)));
    /// ```
    pub fn new(throttle: T) -> Self {
        Self {
            throttle,
            patience: Patience::Waits,
            status: StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// Creates a layer whose requests never wait: it rejects requests that the throttle does not
    /// admit at once.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Semaphore;
    /// use tollgate::tower::ThrottleLayer;
    ///
    /// let layer = ThrottleLayer::refusing(Arc::new(Semaphore::new(64)));
    /// ```
    pub fn refusing(throttle: T) -> Self
    where
        T: TryThrottle,
    {
        Self {
            patience: Patience::Leaves(T::try_enter),
            ..Self::new(throttle)
        }
    }

    /// Rejects a request after it has waited for `duration`, or earlier if the throttle knows that
    /// the wait would be longer. A request that is admitted at once needs no timer. A layer that
    /// rejects at once ignores the timeout.
    ///
    /// The timeout runs on the same time as the `timeout` of the throttle's own futures: the
    /// limiter's [clock](crate::Clock) for a rate limiter, otherwise tokio's time inside a tokio
    /// runtime.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```text")]
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// use axum::Router;
    /// use axum::body::Body;
    /// use axum::http::Request;
    /// use tokio::time::Instant;
    /// use tollgate::Semaphore;
    /// use tollgate::tower::ThrottleLayer;
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
        if !matches!(self.patience, Patience::Leaves(_)) {
            self.patience = Patience::WaitsFor(duration);
        }
        self
    }

    /// Sets the status of rejections after which the client may try again, in place of 429. The
    /// others [stay at 503](crate::tower#refusals).
    ///
    /// 429 tells a client that it made too many requests, which is right for a throttle of its own.
    /// 503 says that the service is overloaded, which is right for a shared throttle.
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
    /// use tollgate::tower::ThrottleLayer;
    /// use tower::ServiceExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), std::convert::Infallible> {
    /// let full = ThrottleLayer::refusing(Arc::new(Semaphore::new(0)));
    /// let app: Router = Router::new().layer(full.status(StatusCode::SERVICE_UNAVAILABLE));
    /// let refused = app.oneshot(Request::new(Body::empty())).await?;
    /// assert_eq!(refused.status(), 503);
    /// # Ok(())
    /// # }
    /// ```
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }
}

impl<S, T: Throttle> Layer<S> for ThrottleLayer<T> {
    type Service = ThrottleService<S, T>;

    fn layer(&self, inner: S) -> Self::Service {
        ThrottleService {
            inner,
            layer: self.clone(),
        }
    }
}
