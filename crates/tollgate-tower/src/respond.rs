//! Turns an admission or a rejection into a response, or into an error for services of any kind.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use http::Response;
use http::response::Parts;
use http_body::Body;
use tollgate::throttle::{Adaptive, Feedback, LimitStatus};
use tollgate::{AcquireError, Throttle};
use tollgate_http::Rejections;

use super::ThrottledBody;

/// The type of the throttle's [`inspect`](tollgate::throttle::Inspect::inspect).
pub(super) type Inspector<T> =
    fn(&T, Option<&<T as Throttle>::Permit>, &mut dyn FnMut(usize, LimitStatus));

/// A condition on the head of a response.
type OfHead = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

/// Reports to an adaptive throttle how the call of a permit has ended.
type LearnFn<T> = fn(&T, &mut <T as Throttle>::Permit, Feedback);

/// Determines the responses of a service with a throttle.
///
/// Only bounds of generic code need its name: it is implemented for [`Responses`] and [`Errors`].
pub trait Respond<T: Throttle, A, E> {
    /// The response of the service.
    type Response;
    /// The error of the service.
    type Error;

    /// Returns the response to a request that was admitted.
    fn answered(&self, throttle: &T, permit: T::Permit, answer: A) -> Self::Response;

    /// Returns the response to a request that was rejected.
    ///
    /// # Errors
    ///
    /// Fails if a rejection is an error of the service.
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
    pub(super) rejections: Rejections,
    /// `Some` if there are fields or policies.
    pub(super) inspect: Option<Inspector<T>>,
    pub(super) refund_if: Option<OfHead>,
    pub(super) overloaded_if: Option<(OfHead, LearnFn<T>)>,
}

impl<T: Throttle> Responses<T> {
    pub(super) fn new() -> Self {
        Self {
            rejections: Rejections::new(),
            inspect: None,
            refund_if: None,
            overloaded_if: None,
        }
    }
}

impl<T: Throttle, B: Body<Data: From<String>>, E> Respond<T, Response<B>, E> for Responses<T> {
    type Response = Response<ThrottledBody<B, T::Permit>>;
    type Error = E;

    fn answered(&self, throttle: &T, mut permit: T::Permit, answer: Response<B>) -> Self::Response {
        let learns = self.refund_if.is_some() || self.overloaded_if.is_some();
        if self.inspect.is_none() && !learns {
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
        if let Some(inspect) = self.inspect {
            self.rejections.report(&mut parts.headers, |each| {
                inspect(throttle, permit.as_ref(), each);
            });
        }
        Response::from_parts(parts, ThrottledBody::holding(body, permit))
    }

    fn refused(&self, throttle: &T, error: AcquireError) -> Result<Self::Response, E> {
        let rejection = self.rejections.reject(error, |each| {
            if let Some(inspect) = self.inspect {
                inspect(throttle, None, each);
            }
        });
        Ok(rejection.map(ThrottledBody::text))
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
            .field("rejections", &self.rejections)
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
///
/// Only bounds of generic code need its name: it is implemented for closures that return a [`Feedback`].
pub trait Classify<T: Throttle, A, E>: Clone {
    /// Reports how the request of this permit ended.
    fn learn(&self, throttle: &T, permit: &mut T::Permit, answered: Option<Result<&A, &E>>);
}

/// Reports nothing.
impl<T: Throttle, A, E> Classify<T, A, E> for () {
    fn learn(&self, _: &T, _: &mut T::Permit, _: Option<Result<&A, &E>>) {}
}

impl<T: Adaptive, A, E, C> Classify<T, A, E> for C
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
    C: Classify<T, A, E>,
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
