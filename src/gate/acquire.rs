//! [`Acquire`]: a wait for a gate, which joins the queue at its first poll, if the gate is blocked.

use std::borrow::Borrow;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Gate;
use crate::debug::debug_as;
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
    /// `None` once the future has completed.
    gate: Option<G>,
    /// The place in the queue, while the future waits.
    id: Option<WaiterId>,
}

impl<G: Borrow<Gate>> Acquire<G> {
    #[inline]
    pub(super) fn new(gate: G) -> Self {
        Self {
            gate: Some(gate),
            id: None,
        }
    }
}

impl<G: Borrow<Gate> + Unpin> Future for Acquire<G> {
    type Output = Result<(), AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let gate = this.gate.as_ref().expect("polled again after it was ready");
        let (gate, waker) = (gate.borrow(), context.waker());
        let polled = match this.id {
            None if gate.is_open() => Poll::Ready(Ok(())),
            None => gate.0.join(&mut this.id, waker),
            Some(_) => gate.0.look(&mut this.id, waker),
        };
        if polled.is_ready() {
            this.gate = None;
        }
        polled
    }
}

impl<G: Borrow<Gate>> Drop for Acquire<G> {
    #[inline]
    fn drop(&mut self) {
        if let (Some(id), Some(gate)) = (&self.id, &self.gate) {
            gate.borrow().0.leave(id);
        }
    }
}

debug_as! { [G: Borrow<Gate>] Acquire<G>, self => Acquire { waits: self.id.is_some(), .. } }
