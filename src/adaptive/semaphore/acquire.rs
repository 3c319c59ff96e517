//! [`Acquire`], the future of a semaphore, and [`AdaptivePermit`], which measures a call and with
//! which a caller reports its outcome.

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::AdaptiveSemaphore;
use crate::adaptive::sampler::Measured;
use crate::concurrency::acquire::{Acquire as AcquirePlace, Queued};
use crate::concurrency::permit::PermitSource;
use crate::error::AcquireError;
use crate::feedback::Feedback;
use crate::wait::{Polled, report_clock};
use crate::wait_queue::WaiterId;

/// The future of [`AdaptiveSemaphore::acquire`] and
/// [`acquire_owned`](AdaptiveSemaphore::acquire_owned). `S` derefs to the semaphore.
///
/// It joins the queue when it is first polled. Dropping it loses nothing.
///
/// # Panics
///
/// Panics if it is polled again after it has completed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<S: Deref<Target = AdaptiveSemaphore>>(AcquirePlace<S>);

impl<S: Deref<Target = AdaptiveSemaphore>> Acquire<S> {
    #[inline]
    pub(in crate::adaptive) fn new(semaphore: S) -> Self {
        Self(AcquirePlace::new(semaphore, 1))
    }
}

impl Queued for AdaptiveSemaphore {
    type Found = ();

    #[inline]
    fn take_now(&self, permits: u32) -> Option<()> {
        self.semaphore.take_now(permits)
    }

    fn join(&self, permits: u32, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<()> {
        // A timeout runs on the clock of the semaphore.
        report_clock(&self.sampler.clock);
        self.semaphore.join(permits, id, waker)
    }

    fn look(&self, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<()> {
        report_clock(&self.sampler.clock);
        self.semaphore.look(id, waker)
    }

    fn leave(&self, id: WaiterId, permits: u32) {
        self.semaphore.leave(id, permits);
    }
}

impl<S: Deref<Target = AdaptiveSemaphore>> Future for Acquire<S> {
    type Output = Result<AdaptivePermit<S>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.0.poll_take(context);
        polled.map_ok(|(semaphore, ())| AdaptivePermit::new(semaphore))
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
    /// Wraps an acquired permit, and begins its call.
    #[inline]
    fn new(semaphore: S) -> Self {
        let call = semaphore.sampler.begin(&semaphore.semaphore);
        Self { semaphore, call }
    }

    /// Takes a permit without waiting.
    #[inline]
    pub(in crate::adaptive) fn try_new(semaphore: S) -> Result<Self, AcquireError> {
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

    /// Returns the permit after a call whose latency is not representative: its input was refused,
    /// the response came from a cache, or the caller gave up for a reason of its own.
    pub fn ignore(mut self) {
        self.learn(Feedback::Ignored);
    }

    /// Ends the call when the permit is dropped.
    #[inline(never)]
    fn end(&mut self) {
        self.learn(if std::thread::panicking() {
            Feedback::Ignored
        } else {
            Feedback::Success
        });
    }

    /// Ends the call. The permit may be held for longer.
    pub(crate) fn learn(&mut self, feedback: Feedback) {
        if let Some(call) = self.call.take() {
            let AdaptiveSemaphore { semaphore, sampler } = &*self.semaphore;
            sampler.end(call, feedback, semaphore);
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
