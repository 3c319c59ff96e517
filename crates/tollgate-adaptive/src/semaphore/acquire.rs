//! [`Acquire`], the future of a semaphore, and [`AdaptivePermit`], which measures a call and with
//! which a caller reports its outcome.

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use tollgate::semaphore::Acquire as AcquirePlace;
use tollgate::throttle::Feedback;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Semaphore};

use super::AdaptiveSemaphore;
use crate::sampler::Measured;

/// The semaphore in an adaptive one, behind the pointer to that one.
struct SemaphoreOf<S>(S);

impl<S: Deref<Target = AdaptiveSemaphore>> Deref for SemaphoreOf<S> {
    type Target = Semaphore;

    #[inline(always)]
    fn deref(&self) -> &Semaphore {
        &self.0.semaphore
    }
}

/// The future of [`AdaptiveSemaphore::acquire`] and
/// [`acquire_owned`](AdaptiveSemaphore::acquire_owned). `S` derefs to the semaphore.
///
/// It joins the queue when it is first polled. Dropping it loses nothing.
///
/// # Panics
///
/// Panics if it is polled again after it has completed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<S: Deref<Target = AdaptiveSemaphore>>(AcquirePlace<SemaphoreOf<S>>);

impl<S: Deref<Target = AdaptiveSemaphore>> Acquire<S> {
    #[inline]
    pub(crate) fn new(semaphore: S) -> Self {
        Self(AcquirePlace::new(SemaphoreOf(semaphore), 1))
    }

    /// Waits. A timeout of the caller runs on the clock of the semaphore.
    #[inline(never)]
    fn pending<T>(&self) -> Poll<T> {
        if let Some(semaphore) = self.0.semaphore() {
            Waiting::report_clock(&semaphore.0.sampler.clock);
        }
        Poll::Pending
    }
}

impl<S: Deref<Target = AdaptiveSemaphore>> Future for Acquire<S> {
    type Output = Result<AdaptivePermit<S>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.0.poll_take(context) {
            Poll::Ready(taken) => Poll::Ready(taken.map(|it| AdaptivePermit::new(it.0))),
            Poll::Pending => self.pending(),
        }
    }
}

impl<S: Deref<Target = AdaptiveSemaphore>> fmt::Debug for Acquire<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A permit of an [`AdaptiveSemaphore`], returned on drop.
///
/// Drop it when the call has ended: the time since it was received is then a sample of the latency,
/// unless the thread is panicking. If the call has no meaningful latency, end it with
/// [`overloaded`](Self::overloaded) or [`ignore`](Self::ignore).
///
/// `S` derefs to the semaphore: it is a reference, or an `Arc` for an owned permit.
#[must_use = "a permit limits nothing once it is dropped: bind it, as in `let permit = ..`"]
pub struct AdaptivePermit<S: Deref<Target = AdaptiveSemaphore>> {
    semaphore: S,
    call: Option<Measured>,
}

impl<S: Deref<Target = AdaptiveSemaphore>> AdaptivePermit<S> {
    /// Wraps a permit that was taken, and begins its call.
    #[inline]
    fn new(semaphore: S) -> Self {
        let call = semaphore.sampler.begin(&semaphore.semaphore);
        Self { semaphore, call }
    }

    /// Takes a permit without waiting.
    #[inline]
    pub(crate) fn try_new(semaphore: S) -> Result<Self, AcquireError> {
        semaphore.semaphore.try_take(1)?;
        Ok(Self::new(semaphore))
    }

    /// Returns the permit after a call that failed because the other side is overloaded: the call
    /// timed out, or was refused with a status such as 429 or 503. Such calls lower the limit.
    ///
    /// Do not put one timeout around both the acquire and the call: when it ends the call, the
    /// permit is dropped, and that counts as a success with that latency. With a timeout around the
    /// call alone, like in this example, you still have the permit and can report the outcome.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_adaptive::AdaptiveSemaphore;
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

    /// Returns the permit after a call whose latency is not representative: its input was refused,
    /// the response came from a cache, or the caller gave up for a reason of its own.
    pub fn ignore(mut self) {
        self.learn(Feedback::Ignored);
    }

    /// Ends the call when the permit is dropped.
    #[inline(never)]
    fn end(&self, call: Measured) {
        let AdaptiveSemaphore { semaphore, sampler } = &*self.semaphore;
        let feedback = if std::thread::panicking() {
            Feedback::Ignored
        } else {
            Feedback::Success
        };
        sampler.end(call, feedback, semaphore);
    }

    /// Ends the call. The permit may be held for longer.
    pub(crate) fn learn(&mut self, feedback: Feedback) {
        let AdaptiveSemaphore { semaphore, sampler } = &*self.semaphore;
        let call = self.call.take();
        if let Some(call) = call.filter(|call| sampler.needs_end(*call)) {
            sampler.end(call, feedback, semaphore);
        }
    }
}

impl<S: Deref<Target = AdaptiveSemaphore>> Drop for AdaptivePermit<S> {
    #[inline]
    fn drop(&mut self) {
        let sampler = &self.semaphore.sampler;
        if let Some(call) = self.call.filter(|call| sampler.needs_end(*call)) {
            self.end(call);
        }
        self.semaphore.semaphore.release(1);
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
