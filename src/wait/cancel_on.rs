//! A wait that a token can cancel.

use std::borrow::Borrow;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Outcome;
use crate::error::{AcquireError, ErrorKind};

pin_project! {
    /// A wait that ends with [`Cancelled`](ErrorKind::Cancelled) when a token is cancelled.
    ///
    /// Created by [`Waiting::cancel_on`](crate::wait::Waiting::cancel_on). `C` is the token or a
    /// reference to it. It is not `Unpin`: to poll it by reference, as `select!` in a loop does,
    /// pin it first, for example with [`pin!`](std::pin::pin). Requires the feature `tokio`, a
    /// default.
    ///
    /// # Panics
    ///
    /// Panics if it is polled again after it has completed.
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct CancelOn<F, C> {
        // `None` once the wait has ended. By then the waiter has left the queue, or its grant has
        // been passed on, even if the caller keeps this future.
        #[pin]
        pub(super) future: Option<F>,
        pub(super) token: C,
        // The registration with the token, if a poll had to wait.
        #[pin]
        pub(super) cancelled: Option<WaitForCancellationFutureOwned>,
    }
}

impl<F, C> Future for CancelOn<F, C>
where
    F: Future<Output: Outcome>,
    C: Borrow<CancellationToken>,
{
    type Output = Result<<F::Output as Outcome>::Ok, AcquireError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let future = this.future.as_mut().as_pin_mut();
        let future = future.expect("polled again after it was ready");
        let token = (*this.token).borrow();
        let result = if token.is_cancelled() {
            Err(if this.cancelled.is_some() {
                AcquireError::new(ErrorKind::Cancelled)
            } else {
                AcquireError::cancelled_before()
            })
        } else if let Poll::Ready(output) = future.poll(context) {
            output.into_result()
        } else {
            if this.cancelled.is_none() {
                let cancelled = token.clone().cancelled_owned();
                this.cancelled.set(Some(cancelled));
            }
            // This registers after the future has its place, so it detects a cancellation in
            // between.
            let cancelled = this.cancelled.as_mut().as_pin_mut();
            if !cancelled.is_some_and(|cancelled| cancelled.poll(context).is_ready()) {
                return Poll::Pending;
            }
            Err(AcquireError::new(ErrorKind::Cancelled))
        };
        this.future.set(None);
        this.cancelled.set(None);
        Poll::Ready(result)
    }
}
