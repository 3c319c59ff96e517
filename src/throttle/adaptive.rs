//! [`Adaptive`]: throttles that learn from how a call has ended, for adapters that know it.

use super::Throttle;
use crate::feedback::Feedback;

/// A throttle whose limit is found from how calls end.
///
/// It is implemented for references and `Arc`s of [`AdaptiveSemaphore`](crate::adaptive::AdaptiveSemaphore) and [`AdaptiveRate`](crate::adaptive::AdaptiveRate), for
/// `Option`s of these, for these `Observed` of the crate `tollgate-observe`, and for
/// [classes](crate::fair::ClassHandle) of a queue in front of them.
///
/// A composition of [`all`](crate::all) is not adaptive, since its parts would learn different things
/// from one call. Nest two layers in its place, the adaptive one inside.
///
/// # Examples
///
/// ```
/// use tollgate::adaptive::{AdaptiveSemaphore, Feedback};
/// use tollgate::throttle::Adaptive;
/// use tollgate::AcquireError;
///
/// async fn call<T: Adaptive>(backend: T) -> Result<u16, AcquireError> {
///     let mut permit = backend.enter().await?;
///     let status = 503; // The request.
///     backend.learn(&mut permit, match status {
///         429 | 503 => Feedback::OVERLOADED,
///         400..500 => Feedback::Ignored,
///         _ => Feedback::Success,
///     });
///     Ok(status)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), AcquireError> {
/// let backend = AdaptiveSemaphore::default();
/// call(&backend).await?;
/// assert_eq!(backend.snapshot().window.overloaded(), 1);
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not learn from how calls end",
    note = "adaptive throttles are an `Arc` of an `AdaptiveSemaphore` or an `AdaptiveRate`, and a class of a `FairQueue` in front of one",
    note = "a composition of `all` is not adaptive: nest two layers in its place, the adaptive one inside"
)]
pub trait Adaptive: Throttle {
    /// Says how the call of a permit has ended, while the permit is still held. What is said of the
    /// permit later counts no more, and neither does dropping it, which otherwise says
    /// [`Feedback::Success`].
    fn learn(&self, permit: &mut Self::Permit, feedback: Feedback);
}
