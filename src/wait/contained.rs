//! A wait of a channel, whose end calls wakers of others.
//!
//! A channel's wait that is over, or given up, may tell the next one in line, when it is dropped. That
//! waker is foreign: its panic must not come out of a `Drop`, nor unwind through what was received.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project::{pin_project, pinned_drop};

use crate::foreign::contain;

/// A wait that is dropped as soon as it is ready, and whose drop does not panic.
#[pin_project(PinnedDrop)]
pub(crate) struct Contained<F>(#[pin] Option<F>);

impl<F> Contained<F> {
    #[inline]
    pub(crate) fn new(future: F) -> Self {
        Self(Some(future))
    }
}

impl<F: Future> Future for Contained<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut future = self.project().0;
        let Some(waiting) = future.as_mut().as_pin_mut() else {
            panic!("polled again after it was ready");
        };
        let output = ready!(waiting.poll(context));
        contain(|| future.set(None));
        Poll::Ready(output)
    }
}

#[pinned_drop]
impl<F> PinnedDrop for Contained<F> {
    #[inline]
    fn drop(self: Pin<&mut Self>) {
        let mut future = self.project().0;
        if future.is_some() {
            contain(|| future.set(None));
        }
    }
}
