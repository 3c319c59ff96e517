//! What becomes of an admission or a rejection: a response, or for services of any kind an error.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use http::response::Parts;
use http::{Response, StatusCode};
use http_body::Body;

use super::fields::{Fields, exhausted_for, is_exhausted};
use super::refusal::{self, Refusal, may_retry};
use super::{Answer, Policy, RateLimitHeaders, ThrottledBody};
use tollgate::AcquireError;
use tollgate::adaptive::Feedback;
use tollgate::throttle::LimitStatus;
use tollgate::throttle::{Adaptive, Throttle};

/// An error of any type, as the services of tower have it.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// [`inspect`](tollgate::throttle::Inspect::inspect) of the throttle.
pub(super) type Inspector<T> =
    fn(&T, Option<&<T as Throttle>::Permit>, &mut dyn FnMut(usize, LimitStatus));

/// A condition on the head of a response.
type OfHead = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

/// Tells an adaptive throttle how the call of a permit has ended.
type Learn<T> = fn(&T, &mut <T as Throttle>::Permit, Feedback);

/// Returns the permit of a request that is dropped before it is answered.
pub(super) type Abandon<T> = fn(&T, <T as Throttle>::Permit);

/// An abandoned request says nothing: how long it would have taken is not known.
pub(super) fn ignore_call<T: Adaptive>(throttle: &T, mut permit: T::Permit) {
    throttle.learn(&mut permit, Feedback::Ignored);
}

/// How a service with a throttle answers.
///
/// It is in a private module: only this crate implements it.
pub trait Respond<T: Throttle, A, E>: Clone {
    /// What the service answers.
    type Response;
    /// How the service fails.
    type Error;

    /// Returns the answer of a service whose request was admitted.
    fn answered(&self, throttle: &T, permit: T::Permit, answer: A) -> Self::Response;

    /// Returns the answer to a request that was rejected.
    fn refused(&self, throttle: &T, error: AcquireError) -> Result<Self::Response, Self::Error>;

    /// Handles the permit of a request that the service answered with an error.
    fn erred(&self, _throttle: &T, permit: T::Permit, _error: &E) {
        drop(permit);
    }

    /// Returns what to do with the permit of a request that is dropped before it is answered, if it is
    /// not to be just dropped.
    fn abandon(&self) -> Option<fn(&T, T::Permit)> {
        None
    }

    /// Returns the error of the service.
    fn failed(error: E) -> Self::Error;
}

/// Rejections are errors of the service. See
/// [`ThrottleLayer::errors`](super::ThrottleLayer::errors).
#[derive(Clone, Copy, Debug)]
pub struct Errors(());

impl Errors {
    pub(super) const fn new() -> Self {
        Self(())
    }
}

impl<T: Throttle, A, E: Into<BoxError>> Respond<T, A, E> for Errors {
    type Response = A;
    type Error = BoxError;

    fn answered(&self, _: &T, permit: T::Permit, answer: A) -> A {
        drop(permit);
        answer
    }

    fn refused(&self, _: &T, error: AcquireError) -> Result<A, BoxError> {
        Err(error.into())
    }

    fn failed(error: E) -> BoxError {
        error.into()
    }
}

/// Rejections are responses of HTTP: the default.
pub struct Responses<T: Throttle>(Arc<Options<T>>);

pub(super) struct Options<T: Throttle> {
    /// The status of a rejection after which the client may try again.
    pub(super) status: StatusCode,
    pub(super) answer: Answer,
    pub(super) headers: Option<RateLimitHeaders>,
    pub(super) policies: Vec<Policy>,
    /// `Some` if there are fields or policies.
    pub(super) inspect: Option<Inspector<T>>,
    pub(super) refund_if: Option<OfHead>,
    pub(super) overloaded_if: Option<(OfHead, Learn<T>, Abandon<T>)>,
}

impl<T: Throttle> Responses<T> {
    pub(super) fn new() -> Self {
        Self(Arc::new(Options {
            status: StatusCode::TOO_MANY_REQUESTS,
            answer: Answer::Empty,
            headers: None,
            policies: Vec::new(),
            inspect: None,
            refund_if: None,
            overloaded_if: None,
        }))
    }

    pub(super) fn options(&mut self) -> &mut Options<T> {
        Arc::make_mut(&mut self.0)
    }

    /// Returns the index of the limit that rejected the call: of the first that is exhausted in the
    /// part that did. A timeout is of no part, so that is the first exhausted limit of all.
    fn rejecting(&self, error: &AcquireError, statuses: &[(usize, LimitStatus)]) -> Option<usize> {
        if !may_retry(error) {
            return None;
        }
        let is_full = |index: &usize| is_exhausted(&statuses[*index].1);
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

    fn answered(&self, throttle: &T, permit: T::Permit, answer: Response<B>) -> Self::Response {
        let options = &*self.0;
        let learns = options.refund_if.is_some() || options.overloaded_if.is_some();
        if options.headers.is_none() && !learns {
            return answer.map(|body| ThrottledBody::holding(body, Some(permit)));
        }
        let (mut parts, body) = answer.into_parts();
        let refund_if = options.refund_if.as_ref();
        let mut permit = Some(permit);
        if refund_if.is_some_and(|refund_if| refund_if(&parts)) {
            permit
                .take()
                .into_iter()
                .for_each(|permit| throttle.rollback(permit));
        } else if let (Some((is_overloaded, learn, _)), Some(permit)) =
            (&options.overloaded_if, &mut permit)
        {
            let feedback = match is_overloaded(&parts) {
                true => Feedback::OVERLOADED,
                false => Feedback::Success,
            };
            learn(throttle, permit, feedback);
        }
        if let (Some(headers), Some(inspect)) = (options.headers, options.inspect) {
            let mut fields = Fields::new(headers, &options.policies, false);
            inspect(throttle, permit.as_ref(), &mut |_, status| {
                fields.add(&status, false)
            });
            fields.write(&mut parts.headers);
        }
        Response::from_parts(parts, ThrottledBody::holding(body, permit))
    }

    fn refused(&self, throttle: &T, error: AcquireError) -> Result<Self::Response, E> {
        let options = &*self.0;
        let mut statuses = Vec::new();
        if let Some(inspect) = options.inspect {
            inspect(throttle, None, &mut |part, status| {
                statuses.push((part, status))
            });
        }
        let limits = || statuses.iter().map(|(_, status)| status);
        let rejecting = self.rejecting(&error, &statuses);
        let policy = rejecting.and_then(|index| options.policies.get(index));
        let is_server = policy.is_some_and(Policy::is_server) || !may_retry(&error);
        let refusal = Refusal {
            status: match is_server {
                true => StatusCode::SERVICE_UNAVAILABLE,
                false => options.status,
            },
            after: refusal::known(&error).max(limits().filter_map(exhausted_for).max()),
            violated: policy,
        };
        let mut answer = Response::new(());
        let (status, text) = refusal.write(options.answer, answer.headers_mut());
        *answer.status_mut() = status;
        if let Some(headers) = options.headers {
            let mut fields = Fields::new(headers, &options.policies, true);
            for (index, status) in limits().enumerate() {
                fields.add(status, rejecting == Some(index));
            }
            fields.write(answer.headers_mut());
        }
        answer.extensions_mut().insert(error);
        Ok(answer.map(|()| ThrottledBody::text(text)))
    }

    fn abandon(&self) -> Option<Abandon<T>> {
        self.0
            .overloaded_if
            .as_ref()
            .map(|(_, _, abandon)| *abandon)
    }

    fn failed(error: E) -> E {
        error
    }
}

impl<T: Throttle> Clone for Responses<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Throttle> Clone for Options<T> {
    fn clone(&self) -> Self {
        Self {
            policies: self.policies.clone(),
            refund_if: self.refund_if.clone(),
            overloaded_if: self.overloaded_if.clone(),
            ..*self
        }
    }
}

impl<T: Throttle> fmt::Debug for Responses<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responses")
            .field("status", &self.0.status)
            .field("answer", &self.0.answer)
            .field("headers", &self.0.headers)
            .field("policies", &self.0.policies)
            .finish_non_exhaustive()
    }
}
