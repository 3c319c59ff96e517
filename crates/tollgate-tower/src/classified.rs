//! What an adaptive throttle learns from the answers of a service: for layers in front of a backend.

use std::fmt;
use std::time::SystemTime;

use http::{Response, StatusCode};

use super::respond::{Abandon, BoxError, Respond, ignore_call};
use super::retry_after::{asked_wait, is_refusal};
use tollgate::AcquireError;
use tollgate::adaptive::Feedback;
use tollgate::throttle::Adaptive;

/// Returns what a response over HTTP says about the load of its server: 429, 503 and 504 (a timeout
/// of a gateway) are [overload](Feedback::Overloaded), with the wait that the first two may ask for, as
/// [`RetryAfterLayer`](super::RetryAfterLayer) reads it; every other status is
/// [`Success`](Feedback::Success).
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
    match is_refusal(status) || status == StatusCode::GATEWAY_TIMEOUT {
        true => Feedback::Overloaded {
            retry_after: asked_wait(status, answer.headers(), false, SystemTime::now),
        },
        false => Feedback::Success,
    }
}

/// The throttle learns from each answer. See
/// [`ThrottleLayer::classify`](super::ThrottleLayer::classify).
#[derive(Clone)]
pub struct Classified<C>(pub(super) C);

impl<T, A, E, C> Respond<T, A, E> for Classified<C>
where
    T: Adaptive,
    E: Into<BoxError>,
    C: Fn(Result<&A, &E>) -> Feedback + Clone,
{
    type Response = A;
    type Error = BoxError;

    fn answered(&self, throttle: &T, mut permit: T::Permit, answer: A) -> A {
        throttle.learn(&mut permit, (self.0)(Ok(&answer)));
        answer
    }

    fn refused(&self, _: &T, error: AcquireError) -> Result<A, BoxError> {
        Err(error.into())
    }

    fn erred(&self, throttle: &T, mut permit: T::Permit, error: &E) {
        throttle.learn(&mut permit, (self.0)(Err(error)));
    }

    fn abandon(&self) -> Option<Abandon<T>> {
        Some(ignore_call)
    }

    fn failed(error: E) -> BoxError {
        error.into()
    }
}

impl<C> fmt::Debug for Classified<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Classified")
    }
}
