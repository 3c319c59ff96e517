//! The permit of an adaptive semaphore: it may be measured, and says how its call has ended.

use std::fmt;
use std::ops::Deref;

use super::AdaptiveSemaphore;
use crate::adaptive::sampler::Place;
use crate::concurrency::permit::PermitSource;
use crate::feedback::Feedback;
use crate::time::Tick;

/// A call that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) place: Place,
    pub(super) in_flight: usize,
    pub(super) began: Tick,
}

/// A permit of an [`AdaptiveSemaphore`], returned on drop.
///
/// Drop it when the call has ended: the time since it was received is then a sample of the latency,
/// unless the thread is panicking. Say so with [`overloaded`](Self::overloaded) or
/// [`ignore`](Self::ignore) if the call has no meaningful latency.
///
/// `S` derefs to the semaphore: it is a reference, or an `Arc` for an owned permit.
#[must_use = "a permit limits nothing once it is dropped: bind it, as in `let permit = ..`"]
pub struct AdaptivePermit<S: Deref<Target = AdaptiveSemaphore>> {
    semaphore: S,
    call: Option<Measured>,
}

impl<S: Deref<Target = AdaptiveSemaphore>> AdaptivePermit<S> {
    /// Makes a permit that has been taken, and begins its call.
    #[inline]
    pub(in crate::adaptive) fn new(semaphore: S) -> Self {
        let call = semaphore.begin();
        Self { semaphore, call }
    }

    /// Returns the permit after a call that failed because the other side has too much to do: it
    /// timed out, or was refused with a status such as 429 or 503. Such calls lower the limit.
    ///
    /// Do not put one timeout around both the acquire and the call: when it ends the call, the permit is
    /// dropped, which counts as a success with that latency. A timeout of the call alone, as here,
    /// leaves the permit to say what happened.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::adaptive::AdaptiveSemaphore;
    ///
    /// async fn call(backend: &AdaptiveSemaphore) -> Result<(), Box<dyn std::error::Error>> {
    ///     let permit = backend.acquire().await?;
    ///     let answer = async { 7 }; // The request.
    ///     match tokio::time::timeout(Duration::from_secs(1), answer).await {
    ///         Ok(_) => drop(permit),
    ///         Err(_) => permit.overloaded(),
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn overloaded(mut self) {
        self.learn(Feedback::OVERLOADED);
    }

    /// Returns the permit after a call whose latency says nothing: its input was refused, the answer
    /// came from a cache, or the caller gave up for a reason of its own.
    pub fn ignore(mut self) {
        self.learn(Feedback::Ignored);
    }

    /// Ends the call when the permit is dropped.
    #[inline(never)]
    fn end(&mut self) {
        self.learn(match std::thread::panicking() {
            true => Feedback::Ignored,
            false => Feedback::Success,
        });
    }

    /// Ends the call, whose permit may be held for longer.
    pub(crate) fn learn(&mut self, feedback: Feedback) {
        if let Some(call) = self.call.take() {
            self.semaphore.end(call, feedback);
        }
    }
}

impl<S: Deref<Target = AdaptiveSemaphore>> Drop for AdaptivePermit<S> {
    #[inline]
    fn drop(&mut self) {
        if self.call.is_some() {
            self.end();
        }
        self.semaphore.semaphore.give_back(1);
    }
}

impl<S: Deref<Target = AdaptiveSemaphore>> fmt::Debug for AdaptivePermit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptivePermit")
            .field("measured", &self.call.is_some())
            .field("semaphore", &*self.semaphore)
            .finish()
    }
}
