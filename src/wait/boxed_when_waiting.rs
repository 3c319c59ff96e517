//! A wait whose future cannot be named: it is tried first, and boxed only when it has to wait.

use std::task::{Context, Poll};

use super::BoxFuture;
use crate::error::{AcquireError, ErrorKind};

/// Asks `S` for a `P`.
pub(crate) enum BoxedWhenWaiting<'a, S, P> {
    /// Not polled yet.
    Asking(S),
    Waiting(BoxFuture<'a, P>),
    Over,
}

impl<'a, S, P> BoxedWhenWaiting<'a, S, P> {
    /// Polls: at first tries, and if there is [nothing to be had](ErrorKind::NoPermits) makes the
    /// future that waits for it.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        try_now: impl FnOnce(&S) -> Result<P, AcquireError>,
        wait: impl FnOnce(S) -> BoxFuture<'a, P>,
    ) -> Poll<Result<P, AcquireError>> {
        let mut future = match std::mem::replace(self, Self::Over) {
            Self::Over => panic!("polled again after it was ready"),
            Self::Waiting(future) => future,
            Self::Asking(source) => match try_now(&source) {
                Err(error) if error.kind() == ErrorKind::NoPermits => wait(source),
                answer => return Poll::Ready(answer),
            },
        };
        // It is dropped as soon as it is ready: what else it was told goes to others then.
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            *self = Self::Waiting(future);
        }
        polled
    }
}
