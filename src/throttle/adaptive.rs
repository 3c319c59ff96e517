//! [`Adaptive`]: throttles that learn from how a call has ended, for adapters that know it.

use std::ops::Deref;
use std::sync::Arc;

use super::Throttle;
use crate::adaptive::{AdaptivePermit, AdaptiveRate, AdaptiveSemaphore, Feedback, RatePermit};

/// A throttle whose limit is found from how calls end.
///
/// It is implemented for references and `Arc`s of [`AdaptiveSemaphore`] and [`AdaptiveRate`], for
/// `Option`s of these, and for [classes](crate::fair::InClass) of a queue in front of them.
///
/// # Examples
///
/// ```
/// use tollgate::adaptive::{AdaptiveSemaphore, Feedback, Gradient};
/// use tollgate::throttle::Adaptive;
/// use tollgate::AcquireError;
///
/// async fn call<T: Adaptive>(backend: T) -> Result<u16, AcquireError> {
///     let permit = backend.enter().await?;
///     let status = 503; // The request.
///     backend.finish(permit, match status {
///         429 | 503 => Feedback::OVERLOADED,
///         400..500 => Feedback::Ignored,
///         _ => Feedback::Success,
///     });
///     Ok(status)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), AcquireError> {
/// let backend = AdaptiveSemaphore::new(Gradient::default());
/// call(&backend).await?;
/// assert_eq!(backend.snapshot().window.overloaded(), 1);
/// # Ok(())
/// # }
/// ```
pub trait Adaptive: Throttle {
    /// Returns a permit after its call, and says how the call has ended. With
    /// [`Feedback::Success`] this is the same as dropping the permit.
    fn finish(&self, permit: Self::Permit, feedback: Feedback);
}

impl<S: Deref<Target = AdaptiveSemaphore>> AdaptivePermit<S> {
    fn finish(self, feedback: Feedback) {
        match feedback {
            Feedback::Success => drop(self),
            Feedback::Overloaded { .. } => self.overloaded(),
            Feedback::Ignored => self.ignore(),
        }
    }
}

impl<S: Deref<Target = AdaptiveRate>> RatePermit<S> {
    fn finish(self, feedback: Feedback) {
        match feedback {
            Feedback::Success => drop(self),
            Feedback::Overloaded { retry_after } => self.throttled(retry_after),
            Feedback::Ignored => self.ignore(),
        }
    }
}

macro_rules! adaptive {
    ($($handle:ty),*) => {$(
        impl Adaptive for $handle {
            fn finish(&self, permit: Self::Permit, feedback: Feedback) {
                permit.finish(feedback);
            }
        }
    )*};
}

adaptive! { &AdaptiveSemaphore, Arc<AdaptiveSemaphore>, &AdaptiveRate, Arc<AdaptiveRate> }

/// A missing limit learns nothing.
impl<T: Adaptive> Adaptive for Option<T> {
    fn finish(&self, permit: Self::Permit, feedback: Feedback) {
        if let (Some(throttle), Some(permit)) = (self, permit) {
            throttle.finish(permit, feedback);
        }
    }
}
