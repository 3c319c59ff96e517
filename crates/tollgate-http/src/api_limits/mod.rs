//! [`ApiLimits`]: the limits of an API, as its server counts them.
//!
//! `call` enters the limits for a request and reads the response; `limit` is one limit and its settings.

mod call;
mod limit;

use std::fmt;
use std::sync::Arc;

use tollgate::{RateLimiter, Semaphore};

pub use self::call::{ApiCall, ApiCharges, Usage};
pub use self::limit::{ApiLimit, Charged};
use self::limit::{CostOf, Kept};

/// The limits of an API, as its server counts them: for example, the requests and the tokens of a minute.
///
/// A client enters all of them before it sends a request, and passes on the head of the response. Each limit then
/// follows what the server reports, and corrects its charge to what the server has charged. `R` is the type of the
/// client's requests. Clones share the limits.
///
/// # Order
///
/// Requests go in the order in which they came: the first waits until all limits have room for it, and the others wait
/// behind it. All its charges are made when the last limit has room, so none of them ages during the wait.
///
/// # Examples
///
/// By hand, with any client. The server counts 500 requests and 90,000 tokens in a minute, and returns the tokens that
/// were not used:
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use http::{HeaderMap, StatusCode};
/// use tollgate::Throttle;
/// use tollgate_http::server_limits::Unit;
/// use tollgate_http::{ApiLimit, ApiLimits, ResponseClass};
///
/// struct Prompt {
///     text: String,
///     max_tokens: u64,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// const MINUTE: Duration = Duration::from_secs(60);
///
/// let requests = ApiLimit::new(Unit::Requests, 500, MINUTE);
/// let tokens = ApiLimit::new(Unit::Tokens, 90_000, MINUTE)
///     .hold(|prompt: &Prompt| prompt.text.len() as u64 / 4 + prompt.max_tokens);
/// let limits = ApiLimits::new([requests, tokens]);
///
/// let prompt = Prompt { text: "Why is the sky blue?".to_owned(), max_tokens: 1_000 };
/// let charges = limits.call(&prompt).enter().await?;
/// // Stands in for the request.
/// let (status, headers, tokens_used) = (StatusCode::OK, HeaderMap::new(), 250);
/// let class = ResponseClass::of(status, &headers, SystemTime::now);
/// let usage = charges.answered(status, &headers, class, SystemTime::now());
/// usage.settle(Unit::Tokens, tokens_used);
/// assert_eq!(limits.limiters().nth(1).unwrap().snapshot().available, 88_200 - 250);
/// # Ok(())
/// # }
/// ```
pub struct ApiLimits<R: ?Sized> {
    costs: Arc<[Option<Box<CostOf<R>>>]>,
    shared: Arc<Shared>,
}

/// What the calls share.
struct Shared {
    limits: Vec<Kept>,
    /// The permit of the request that goes first.
    turn: Arc<Semaphore>,
}

impl<R: ?Sized> ApiLimits<R> {
    /// Creates the limits of an API.
    ///
    /// # Panics
    ///
    /// Panics if a limit is too extreme for a [`Quota`](tollgate::Quota#limits), or does not
    /// [fit](tollgate::Algorithm::check) its algorithm.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn new(limits: impl IntoIterator<Item = ApiLimit<R>>) -> Self {
        let limits = limits.into_iter().map(ApiLimit::build);
        let (costs, limits): (Vec<_>, Vec<_>) = limits.unzip();
        Self {
            costs: costs.into(),
            shared: Arc::new(Shared {
                limits,
                turn: Arc::new(Semaphore::new(1)),
            }),
        }
    }

    /// Returns the limits for one request, which is a [throttle](tollgate::Throttle). The closures that return its costs
    /// are called now.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn call(&self, request: &R) -> ApiCall {
        let cost = |cost: &Option<Box<CostOf<R>>>| cost.as_ref().map_or(1, |of| of(request));
        ApiCall {
            costs: self.costs.iter().map(cost).collect(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Returns the limiters of the limits, in their order, to look at them, to pause one, or to change its quota.
    ///
    /// What a server reports is still compared with the limit of [`ApiLimit::new`], so if the server's limit has changed,
    /// create new limits.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn limiters(&self) -> impl Iterator<Item = &RateLimiter> {
        self.shared.limits.iter().map(|limit| &*limit.limiter)
    }
}

impl<R: ?Sized> Clone for ApiLimits<R> {
    fn clone(&self) -> Self {
        Self {
            costs: Arc::clone(&self.costs),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<R: ?Sized> fmt::Debug for ApiLimits<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limiters = self.limiters().map(RateLimiter::snapshot);
        f.debug_list().entries(limiters).finish()
    }
}
