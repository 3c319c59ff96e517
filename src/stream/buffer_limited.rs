//! Runs the futures of a stream as the throttle admits them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::FusedStream;
use pin_project::pin_project;

use super::limited::{Limited, MAX_TURNS};
use crate::error::AcquireError;
use crate::throttle::Throttle;

/// The stream returned by
/// [`LimitStreamExt::buffer_limited`](super::LimitStreamExt::buffer_limited).
#[pin_project]
#[must_use = "a stream does nothing unless it is polled"]
pub struct BufferLimited<S: Stream<Item: Future>, T: Throttle>(#[pin] Limited<S, T, S::Item>);

impl<S: Stream<Item: Future>, T: Throttle> BufferLimited<S, T> {
    pub(super) fn new(stream: S, throttle: T) -> Self {
        Self(Limited::new(stream, throttle))
    }
}

impl<S: Stream<Item: Future>, T: Throttle> Stream for BufferLimited<S, T> {
    type Item = Result<<S::Item as Future>::Output, AcquireError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut turns = MAX_TURNS;
        let limited = self.project().0;
        limited.poll_next(context, &mut |future| future, &mut turns)
    }
}

impl<S: Stream<Item: Future>, T: Throttle> FusedStream for BufferLimited<S, T> {
    fn is_terminated(&self) -> bool {
        self.0.is_terminated()
    }
}

impl<S: Stream<Item: Future>, T: Throttle> fmt::Debug for BufferLimited<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferLimited")
            .field("running", &self.0.running())
            .finish_non_exhaustive()
    }
}
