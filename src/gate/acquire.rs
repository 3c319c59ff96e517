//! The future of `acquire`: it joins the queue at its first poll, if the gate is blocked.

use std::borrow::Borrow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Gate;
use crate::error::AcquireError;
use crate::wait_queue::WaiterId;

/// The future of [`Gate::acquire`], with `G = &Gate`, and of [`Gate::acquire_owned`], with `G =
/// Gate`.
///
/// # Panics
///
/// Panics if it is polled again after it has completed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<G: Borrow<Gate>> {
    gate: G,
    stage: Stage,
}

/// The progress of the future.
pub(super) enum Stage {
    New,
    Waiting(WaiterId),
    Done,
}

impl<G: Borrow<Gate>> Acquire<G> {
    #[inline]
    pub(super) fn new(gate: G) -> Self {
        Self {
            gate,
            stage: Stage::New,
        }
    }

    #[inline(never)]
    fn poll_blocked(&mut self, context: &Context<'_>) -> Poll<Result<(), AcquireError>> {
        let gate = self.gate.borrow();
        let polled = match &self.stage {
            Stage::New => gate.join(&mut self.stage, context.waker()),
            Stage::Waiting(id) => gate.poll_waiter(id, context.waker()),
            Stage::Done => panic!("polled again after it was ready"),
        };
        if polled.is_ready() {
            self.stage = Stage::Done;
        }
        polled
    }
}

impl<G: Borrow<Gate> + Unpin> Future for Acquire<G> {
    type Output = Result<(), AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if matches!(self.stage, Stage::New) && self.gate.borrow().is_open() {
            self.stage = Stage::Done;
            return Poll::Ready(Ok(()));
        }
        self.poll_blocked(context)
    }
}

impl<G: Borrow<Gate>> Drop for Acquire<G> {
    #[inline]
    fn drop(&mut self) {
        if let Stage::Waiting(id) = &self.stage {
            self.gate.borrow().leave(id);
        }
    }
}

impl<G: Borrow<Gate>> fmt::Debug for Acquire<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("waits", &matches!(self.stage, Stage::Waiting(_)))
            .finish_non_exhaustive()
    }
}
