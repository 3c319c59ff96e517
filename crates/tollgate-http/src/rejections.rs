//! [`Rejections`]: writes what a service tells its clients about its limits.
//!
//! The settings are checked when they are made, so writing does not fail.

use http::{HeaderMap, Response, StatusCode};
use tollgate::throttle::LimitStatus;
use tollgate::{AcquireError, ErrorKind};

use super::fields::{Fields, exhausted_for, is_exhausted};
use super::refusal::{self, Refusal, may_retry};
use super::{Answer, Policy, RateLimitHeaders};

/// Writes what a service tells its clients about its limits: [fields](Self::report) in each response, and the
/// [response](Self::reject) to a rejected request. The crate [`tollgate-tower`] has a layer that uses it; for
/// other frameworks, call it in a middleware.
///
/// Both methods take a closure that inspects the throttle, because the throttle may have no status.
///
/// # Examples
///
/// ```
/// use http::HeaderMap;
/// use tollgate::throttle::Inspect;
/// use tollgate::{Clock, Quota, RateLimiter};
/// use tollgate_http::{RateLimitHeaders, Rejections};
///
/// let limiter = RateLimiter::new(Quota::per_minute(60).burst(1)).clock(Clock::manual());
/// let rejections = Rejections::new().headers(RateLimitHeaders::Draft11);
///
/// let charge = limiter.try_acquire()?;
/// let mut headers = HeaderMap::new();
/// rejections.report(&mut headers, |each| (&limiter).inspect(Some(&charge), each));
/// assert_eq!(headers["ratelimit"], r#""default";r=0;t=1"#);
///
/// let error = limiter.try_acquire().unwrap_err();
/// let rejection = rejections.reject(error, |each| (&limiter).inspect(None, each));
/// assert_eq!(rejection.status(), 429);
/// assert_eq!(rejection.headers()["retry-after"], "1");
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
///
/// [`tollgate-tower`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/
#[derive(Clone, Debug)]
#[must_use = "the settings have no effect until a response is written"]
pub struct Rejections {
    /// The status of a rejection after which the client may try again.
    status: StatusCode,
    answer: Answer,
    headers: Option<RateLimitHeaders>,
    policies: Vec<Policy>,
}

impl Rejections {
    /// Creates the default settings: status 429, an empty body, and no fields except `Retry-After`.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn new() -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            answer: Answer::Empty,
            headers: None,
            policies: Vec::new(),
        }
    }

    /// Sets the status of a rejection after which the client may try again, in place of 429 Too Many Requests.
    ///
    /// # Panics
    ///
    /// Panics if the status is neither a client error nor a server error.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::StatusCode;
    /// use tollgate::{AcquireError, ErrorKind};
    /// use tollgate_http::Rejections;
    ///
    /// let rejections = Rejections::new().status(StatusCode::SERVICE_UNAVAILABLE);
    /// let rejection = rejections.reject(AcquireError::new(ErrorKind::QueueFull), |_| ());
    /// assert_eq!(rejection.status(), 503);
    /// ```
    #[track_caller]
    pub fn status(mut self, status: StatusCode) -> Self {
        let is_error = status.is_client_error() || status.is_server_error();
        assert!(is_error, "a rejection cannot have the status {status}");
        self.status = status;
        self
    }

    /// Sets the form of rejections, in place of an empty body.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{AcquireError, ErrorKind};
    /// use tollgate_http::{Answer, Rejections};
    ///
    /// let rejections = Rejections::new().answer(Answer::ProblemJson);
    /// let rejection = rejections.reject(AcquireError::new(ErrorKind::QueueFull), |_| ());
    /// assert!(rejection.body().contains("quota-exceeded"));
    /// ```
    pub fn answer(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }

    /// Sets the fields that tell clients their limits. By default there are none.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn headers(mut self, headers: RateLimitHeaders) -> Self {
        self.headers = Some(headers);
        self
    }

    /// Names the limits, in the order in which the throttle reports them, for [fields](Self::headers) and
    /// [problems](Self::answer). Limits without a policy are named `default`, `default-2` and so on in fields, and
    /// policies without a limit have no effect.
    ///
    /// # Panics
    ///
    /// Panics if two policies have the same name, or if one has a name such as `default-2`, which is reserved for
    /// limits without a policy.
    ///
    /// # Examples
    ///
    /// A rejection by a limit that all clients share has the status 503:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Semaphore;
    /// use tollgate::throttle::Inspect;
    /// use tollgate_http::{Policy, Rejections};
    ///
    /// let slots = Arc::new(Semaphore::new(0));
    /// let rejections = Rejections::new().policies([Policy::server("slots")]);
    /// let error = slots.try_acquire().unwrap_err();
    /// let rejection = rejections.reject(error, |each| slots.inspect(None, each));
    /// assert_eq!(rejection.status(), 503);
    /// ```
    #[track_caller]
    pub fn policies(mut self, policies: impl IntoIterator<Item = Policy>) -> Self {
        let policies: Vec<_> = policies.into_iter().collect();
        for (index, policy) in policies.iter().enumerate() {
            let mut before = policies[..index].iter();
            let same = before.any(|other| other.quoted == policy.quoted);
            assert!(!same, "two policies are named {policy}");
            assert!(
                !policy.is_reserved(),
                "the name {policy} is for limits without a policy"
            );
        }
        self.policies = policies;
        self
    }

    /// Adds the [fields](Self::headers) to those of a response to an admitted request. `inspect` calls its argument with
    /// the part and the status of each limit, as [`Inspect`](tollgate::throttle::Inspect::inspect) does.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn report(
        &self,
        headers: &mut HeaderMap,
        inspect: impl FnOnce(&mut dyn FnMut(usize, LimitStatus)),
    ) {
        if let Some(format) = self.headers {
            let mut fields = Fields::new(format, &self.policies, false);
            inspect(&mut |_, status| fields.add(&status, false));
            fields.write(headers);
        }
    }

    /// Returns the response to a request that was rejected with this error. Its body is the text of the [chosen
    /// form](Self::answer), and its extensions contain the error. `inspect` is called as in [`report`](Self::report); it
    /// identifies the limit that rejected the request, and the time when the request may be admitted.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn reject(
        &self,
        error: AcquireError,
        inspect: impl FnOnce(&mut dyn FnMut(usize, LimitStatus)),
    ) -> Response<String> {
        let mut statuses = Vec::new();
        inspect(&mut |part, status| statuses.push((part, status)));
        let limits = || statuses.iter().map(|(_, status)| status);
        let rejecting = rejecting(&error, &statuses);
        let policy = rejecting.and_then(|index| self.policies.get(index));
        let is_server = policy.is_some_and(|policy| policy.is_server);
        let status = match refusal::status(&error) {
            _ if is_server => StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::TOO_MANY_REQUESTS => self.status,
            status => status,
        };
        let after = || refusal::known(&error).max(limits().filter_map(exhausted_for).max());
        let refusal = Refusal {
            status,
            // A request that is too large remains so until the limit changes.
            after: (error.kind() != ErrorKind::ExceedsCapacity)
                .then(after)
                .flatten(),
            violated: policy,
        };
        let mut response = Response::new(String::new());
        let (status, text) = refusal.write(self.answer, response.headers_mut());
        *response.status_mut() = status;
        *response.body_mut() = text;
        if let Some(format) = self.headers {
            let mut fields = Fields::new(format, &self.policies, true);
            for (index, status) in limits().enumerate() {
                fields.add(status, rejecting == Some(index));
            }
            fields.write(response.headers_mut());
        }
        response.extensions_mut().insert(error);
        response
    }
}

/// Returns the index of the limit that rejected the call: the first exhausted limit in the part that
/// rejected it. A timeout belongs to no part, so its limit is the first exhausted one of all. A call that
/// costs more than a limit ever gives is rejected whether the limit is exhausted or not.
fn rejecting(error: &AcquireError, statuses: &[(usize, LimitStatus)]) -> Option<usize> {
    let is_too_large = error.kind() == ErrorKind::ExceedsCapacity;
    if !may_retry(error) && !is_too_large {
        return None;
    }
    let is_full = |index: &usize| !is_too_large && is_exhausted(&statuses[*index].1);
    let of_part = |index: &usize| error.part().is_none_or(|part| statuses[*index].0 == part);
    let all = 0..statuses.len();
    let is_known = error.part().is_some() || statuses.len() == 1;
    all.clone()
        .filter(of_part)
        .find(is_full)
        .or_else(|| all.clone().find(|index| is_known && of_part(index)))
        .or_else(|| all.clone().find(is_full))
}
impl Default for Rejections {
    fn default() -> Self {
        Self::new()
    }
}
