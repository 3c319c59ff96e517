//! Turns an admission or a rejection into a response, or into an error for services of any kind.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use http::response::Parts;
use http::{Response, StatusCode};
use http_body::Body;
use tollgate::adaptive::Feedback;
use tollgate::throttle::{Adaptive, LimitStatus};
use tollgate::{AcquireError, ErrorKind, Throttle};

use super::fields::{Fields, exhausted_for, is_exhausted};
use super::refusal::{self, Refusal, may_retry};
use super::retry_after::{asked_wait, is_refusal};
use super::{Answer, Policy, RateLimitHeaders, ThrottledBody};

/// The type of the throttle's [`inspect`](tollgate::throttle::Inspect::inspect).
pub(super) type Inspector<T> =
    fn(&T, Option<&<T as Throttle>::Permit>, &mut dyn FnMut(usize, LimitStatus));

/// A condition on the head of a response.
type OfHead = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

/// Reports to an adaptive throttle how the call of a permit has ended.
type LearnFn<T> = fn(&T, &mut <T as Throttle>::Permit, Feedback);

/// Determines the responses of a service with a throttle.
///
/// This trait is in a private module: only this crate implements it.
pub trait Respond<T: Throttle, A, E> {
    /// The response of the service.
    type Response;
    /// The error of the service.
    type Error;

    /// Returns the response to a request that was admitted.
    fn answered(&self, throttle: &T, permit: T::Permit, answer: A) -> Self::Response;

    /// Returns the response to a request that was rejected.
    fn refused(&self, throttle: &T, error: AcquireError) -> Result<Self::Response, Self::Error>;

    /// Handles the permit of a request that the service answered with an error.
    fn erred(&self, _throttle: &T, permit: T::Permit, _error: &E) {
        drop(permit);
    }

    /// Handles the permit of a request that is dropped before it is answered.
    fn abandoned(&self, throttle: &T, permit: T::Permit);

    /// Returns the error of the service.
    fn failed(error: E) -> Self::Error;
}

/// Makes rejections responses over HTTP. This is the default.
#[derive(Clone)]
pub struct Responses<T: Throttle> {
    /// The status of a rejection after which the client may try again.
    pub(super) status: StatusCode,
    pub(super) answer: Answer,
    pub(super) headers: Option<RateLimitHeaders>,
    pub(super) policies: Vec<Policy>,
    /// `Some` if there are fields or policies.
    pub(super) inspect: Option<Inspector<T>>,
    pub(super) refund_if: Option<OfHead>,
    pub(super) overloaded_if: Option<(OfHead, LearnFn<T>)>,
}

impl<T: Throttle> Responses<T> {
    pub(super) fn new() -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            answer: Answer::Empty,
            headers: None,
            policies: Vec::new(),
            inspect: None,
            refund_if: None,
            overloaded_if: None,
        }
    }

    /// Returns the index of the limit that rejected the call: the first exhausted limit in the part that
    /// rejected it. A timeout belongs to no part, so its limit is the first exhausted one of all. A call that
    /// costs more than a limit ever gives is rejected whether the limit is exhausted or not.
    fn rejecting(&self, error: &AcquireError, statuses: &[(usize, LimitStatus)]) -> Option<usize> {
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
}

impl<T: Throttle, B: Body<Data: From<String>>, E> Respond<T, Response<B>, E> for Responses<T> {
    type Response = Response<ThrottledBody<B, T::Permit>>;
    type Error = E;

    fn answered(&self, throttle: &T, mut permit: T::Permit, answer: Response<B>) -> Self::Response {
        let learns = self.refund_if.is_some() || self.overloaded_if.is_some();
        if self.headers.is_none() && !learns {
            return answer.map(|body| ThrottledBody::holding(body, Some(permit)));
        }
        let (mut parts, body) = answer.into_parts();
        let refund_if = self.refund_if.as_ref();
        let permit = if refund_if.is_some_and(|refund_if| refund_if(&parts)) {
            throttle.rollback(permit);
            None
        } else {
            if let Some((is_overloaded, learn)) = &self.overloaded_if {
                let feedback = if is_overloaded(&parts) {
                    Feedback::OVERLOADED
                } else {
                    Feedback::Success
                };
                learn(throttle, &mut permit, feedback);
            }
            Some(permit)
        };
        if let (Some(headers), Some(inspect)) = (self.headers, self.inspect) {
            let mut fields = Fields::new(headers, &self.policies, false);
            inspect(throttle, permit.as_ref(), &mut |_, status| {
                fields.add(&status, false);
            });
            fields.write(&mut parts.headers);
        }
        Response::from_parts(parts, ThrottledBody::holding(body, permit))
    }

    fn refused(&self, throttle: &T, error: AcquireError) -> Result<Self::Response, E> {
        let mut statuses = Vec::new();
        if let Some(inspect) = self.inspect {
            inspect(throttle, None, &mut |part, status| {
                statuses.push((part, status));
            });
        }
        let limits = || statuses.iter().map(|(_, status)| status);
        let rejecting = self.rejecting(&error, &statuses);
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
        let mut answer = Response::new(());
        let (status, text) = refusal.write(self.answer, answer.headers_mut());
        *answer.status_mut() = status;
        if let Some(headers) = self.headers {
            let mut fields = Fields::new(headers, &self.policies, true);
            for (index, status) in limits().enumerate() {
                fields.add(status, rejecting == Some(index));
            }
            fields.write(answer.headers_mut());
        }
        answer.extensions_mut().insert(error);
        Ok(answer.map(|()| ThrottledBody::text(text)))
    }

    fn abandoned(&self, throttle: &T, mut permit: T::Permit) {
        if let Some((_, learn)) = self.overloaded_if {
            learn(throttle, &mut permit, Feedback::Ignored);
        }
    }

    fn failed(error: E) -> E {
        error
    }
}

impl<T: Throttle> fmt::Debug for Responses<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responses")
            .field("status", &self.status)
            .field("answer", &self.answer)
            .field("headers", &self.headers)
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}

// Rejections as errors of the service, for services of any kind, and the feedback of answers to an
// adaptive throttle, for layers in front of a backend.

/// An error of any type, as tower's services use it.
type BoxError = Box<dyn Error + Send + Sync>;

/// Makes rejections errors of the service, see [`ThrottleLayer::errors`](super::ThrottleLayer::errors).
/// If `C` classifies the answers, the throttle gets them as feedback, see
/// [`ThrottleLayer::classify`](super::ThrottleLayer::classify).
#[derive(Clone, Copy)]
pub struct Errors<C = ()>(pub(super) C);

/// Reports an answer or an error of the service to the throttle. `None` means that the request was dropped
/// before, so its latency is unknown.
pub trait Learn<T: Throttle, A, E>: Clone {
    fn learn(&self, throttle: &T, permit: &mut T::Permit, answered: Option<Result<&A, &E>>);
}

/// Reports nothing.
impl<T: Throttle, A, E> Learn<T, A, E> for () {
    fn learn(&self, _: &T, _: &mut T::Permit, _: Option<Result<&A, &E>>) {}
}

impl<T: Adaptive, A, E, C> Learn<T, A, E> for C
where
    C: Fn(Result<&A, &E>) -> Feedback + Clone,
{
    fn learn(&self, throttle: &T, permit: &mut T::Permit, answered: Option<Result<&A, &E>>) {
        throttle.learn(permit, answered.map_or(Feedback::Ignored, self));
    }
}

impl<T, A, E, C> Respond<T, A, E> for Errors<C>
where
    T: Throttle,
    E: Into<BoxError>,
    C: Learn<T, A, E>,
{
    type Response = A;
    type Error = BoxError;

    fn answered(&self, throttle: &T, mut permit: T::Permit, answer: A) -> A {
        self.0.learn(throttle, &mut permit, Some(Ok(&answer)));
        answer
    }

    fn refused(&self, _: &T, error: AcquireError) -> Result<A, BoxError> {
        Err(error.into())
    }

    fn erred(&self, throttle: &T, mut permit: T::Permit, error: &E) {
        self.0.learn(throttle, &mut permit, Some(Err(error)));
    }

    fn abandoned(&self, throttle: &T, mut permit: T::Permit) {
        self.0.learn(throttle, &mut permit, None);
    }

    fn failed(error: E) -> BoxError {
        error.into()
    }
}

impl<C> fmt::Debug for Errors<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Errors")
    }
}

/// Returns the feedback of a response over HTTP about the load of its server. The statuses 429, 503, 504 (a
/// gateway timeout) and a 403 that asks for a wait are [overload](Feedback::Overloaded). All except 504 may
/// ask for a wait, which is read like in [`RetryAfterLayer`](super::RetryAfterLayer). Every other answer
/// is [`Success`](Feedback::Success).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use http::Response;
/// use tollgate::adaptive::Feedback;
///
/// let busy = Response::builder().status(503).header("retry-after", "7").body(())?;
/// let retry_after = Some(Duration::from_secs(7));
/// assert_eq!(tollgate_tower::feedback(&busy), Feedback::Overloaded { retry_after });
///
/// let missing = Response::builder().status(404).body(())?;
/// assert_eq!(tollgate_tower::feedback(&missing), Feedback::Success);
/// # Ok::<_, http::Error>(())
/// ```
pub fn feedback<B>(answer: &Response<B>) -> Feedback {
    let status = answer.status();
    let retry_after = asked_wait(status, answer.headers(), false, SystemTime::now);
    if is_refusal(status, retry_after) || status == StatusCode::GATEWAY_TIMEOUT {
        Feedback::Overloaded { retry_after }
    } else {
        Feedback::Success
    }
}
