//! Runs work on each item of a stream as the throttle admits it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use pin_project::pin_project;

use super::limited::{Limited, MAX_TURNS};
use crate::error::AcquireError;
use crate::throttle::Throttle;

/// The future returned by
/// [`LimitStreamExt::for_each_limited`](super::LimitStreamExt::for_each_limited).
#[pin_project]
#[must_use = "a future does nothing unless it is awaited"]
pub struct ForEachLimited<S: Stream, T: Throttle, F, W> {
    #[pin]
    limited: Limited<S, T, W>,
    work: F,
}

impl<S: Stream, T: Throttle, F, W: Future> ForEachLimited<S, T, F, W> {
    pub(super) fn new(stream: S, throttle: T, work: F) -> Self {
        Self {
            limited: Limited::new(stream, throttle),
            work,
        }
    }
}

impl<S, T, F, W> Future for ForEachLimited<S, T, F, W>
where
    S: Stream,
    T: Throttle,
    F: FnMut(S::Item) -> W,
    W: Future<Output = ()>,
{
    type Output = Result<(), AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut turns = MAX_TURNS;
        loop {
            let limited = this.limited.as_mut();
            match ready!(limited.poll_next(context, this.work, &mut turns)) {
                Some(Ok(())) => {}
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl<S: Stream, T: Throttle, F, W: Future> fmt::Debug for ForEachLimited<S, T, F, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForEachLimited")
            .field("running", &self.limited.running())
            .finish_non_exhaustive()
    }
}
