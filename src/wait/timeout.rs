//! A wait that ends after a time.

use std::marker::{PhantomData, PhantomPinned};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::{Outcome, hints, is_blocking};
use crate::debug::debug_as;
use crate::error::{AcquireError, ErrorKind};
use crate::time::Sleep;

pin_project! {
    /// A wait that ends with [`TimedOut`](ErrorKind::TimedOut) after a time.
    ///
    /// Created by [`Waiting::timeout`](crate::wait::Waiting::timeout). It runs on the clock of the
    /// throttle that it first has to wait for, if that throttle has one. It is not `Unpin`: to poll
    /// it by reference, as `select!` in a loop does, pin it first, for example with
    /// [`pin!`](std::pin::pin).
    ///
    /// # Panics
    ///
    /// Panics if it is polled again after it has completed.
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct Timeout<F> {
        // `None` once the wait has ended. By then the waiter has left the queue, or its grant has
        // been passed on, even if the caller keeps this future.
        #[pin]
        future: Option<F>,
        duration: Duration,
        // The timer, if a poll had to wait.
        #[pin]
        sleep: Option<Sleep>,
        // Removes the auto traits that a tokio timer does not have, so that the type is the same
        // with every set of features: `Unpin`, `UnwindSafe` and `RefUnwindSafe`.
        #[pin]
        _as_with_tokio: (PhantomData<dyn Send + Sync>, PhantomPinned),
    }
}

impl<F> Timeout<F> {
    #[inline]
    pub(super) fn new(future: F, duration: Duration) -> Self {
        Self {
            future: Some(future),
            duration,
            sleep: None,
            _as_with_tokio: (PhantomData, PhantomPinned),
        }
    }
}

impl<F: Future<Output: Outcome>> Future for Timeout<F> {
    type Output = Result<<F::Output as Outcome>::Ok, AcquireError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let future = this.future.as_mut().as_pin_mut();
        let future = future.expect("polled again after it was ready");
        let sleep = this.sleep.as_ref().as_pin_ref();
        let left = sleep.map_or(*this.duration, |sleep| sleep.left());
        let (polled, clock) = hints::within(left, || future.poll(context));
        let result = if let Poll::Ready(output) = polled {
            output.into_result()
        } else if this.duration.is_zero() {
            Err(AcquireError::new(ErrorKind::TimedOut))
        } else {
            // A thread that blocks drives no runtime while it waits.
            let blocking = is_blocking(context.waker());
            if this.sleep.is_none() {
                let sleep = Sleep::new(clock, *this.duration, blocking);
                this.sleep.set(Some(sleep));
            }
            let sleep = this.sleep.as_mut().as_pin_mut();
            if !sleep.is_some_and(|sleep| sleep.poll_sleep(context, blocking).is_ready()) {
                return Poll::Pending;
            }
            Err(AcquireError::new(ErrorKind::TimedOut))
        };
        this.future.set(None);
        this.sleep.set(None);
        Poll::Ready(result)
    }
}

debug_as! {
    [F: std::fmt::Debug] Timeout<F>, self
    => Timeout { future: self.future, duration: self.duration, .. }
}
