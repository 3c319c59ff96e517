//! Rejections as errors of the service, for services of any kind, and what an adaptive throttle learns
//! from its answers: for layers in front of a backend.

use std::error::Error;
use std::fmt;
use std::time::SystemTime;

use http::{Response, StatusCode};

use super::respond::Respond;
use super::retry_after::{asked_wait, is_refusal};
use tollgate::AcquireError;
use tollgate::adaptive::Feedback;
use tollgate::throttle::{Adaptive, Throttle};

/// An error of any type, as the services of tower have it.
type BoxError = Box<dyn Error + Send + Sync>;

/// Rejections are errors of the service, see [`ThrottleLayer::errors`](super::ThrottleLayer::errors);
/// and if `C` classifies the answers, the throttle learns from them, see
/// [`ThrottleLayer::classify`](super::ThrottleLayer::classify).
#[derive(Clone, Copy)]
pub struct Errors<C = ()>(pub(super) C);

/// What the throttle learns from an answer or an error of the service, or from neither, if the request
/// was dropped before: how long it would have taken is not known.
pub trait Learn<T: Throttle, A, E>: Clone {
    fn learn(&self, throttle: &T, permit: &mut T::Permit, answered: Option<Result<&A, &E>>);
}

/// Nothing.
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

/// Returns what a response over HTTP says about the load of its server: 429, 503, 504 (a timeout
/// of a gateway) and a 403 that asks for a wait are [overload](Feedback::Overloaded), with the wait that
/// all but 504 may ask for, as [`RetryAfterLayer`](super::RetryAfterLayer) reads it; every other answer
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
    match is_refusal(status, retry_after) || status == StatusCode::GATEWAY_TIMEOUT {
        true => Feedback::Overloaded { retry_after },
        false => Feedback::Success,
    }
}
