//! The future of `acquire` by key: at first a handle, then the wait in the queue of its key.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::AcquireError;

/// The future of `acquire` and `acquire_many` of a [`Key`](super::Key) or an
/// [`OwnedKey`](super::OwnedKey).
///
/// It joins the wait queue of its key when it is first polled. See
/// [`Keyed`](crate::Keyed#cancel-safety) for what dropping it does.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<H: Enter>(State<H>);

enum State<H: Enter> {
    New(H, H::Cost),
    Waiting(H::Wait),
    Over,
}

/// The result of a first poll.
#[doc(hidden)]
#[derive(Debug)]
pub enum Begun<P, W> {
    Entered(P),
    Wait(W),
}

/// A handle whose key can be waited for. It is only met in bounds; there is no need to name it.
///
/// Sealed: it is implemented here alone.
pub trait Enter: sealed::Sealed {
    /// What a caller holds afterwards.
    type Permit;

    /// How much a call asks for.
    #[doc(hidden)]
    type Cost: Copy + fmt::Debug;

    /// The wait in the queue.
    #[doc(hidden)]
    type Wait: Future<Output = Result<Self::Permit, AcquireError>> + Unpin;

    /// Acquires now, or begins to wait.
    #[doc(hidden)]
    fn begin(&self, cost: Self::Cost) -> Result<Begun<Self::Permit, Self::Wait>, AcquireError>;
}

pub(super) mod sealed {
    pub trait Sealed {}
}

impl<H: Enter> Acquire<H> {
    #[inline]
    pub(super) fn new(handle: H, cost: H::Cost) -> Self {
        Self(State::New(handle, cost))
    }
}

// The handle is never pinned.
impl<H: Enter> Unpin for Acquire<H> {}

impl<H: Enter> Future for Acquire<H> {
    type Output = Result<H::Permit, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let polled = match &mut self.0 {
                State::New(handle, cost) => match handle.begin(*cost) {
                    Ok(Begun::Wait(wait)) => {
                        self.0 = State::Waiting(wait);
                        continue;
                    }
                    Ok(Begun::Entered(permit)) => Poll::Ready(Ok(permit)),
                    Err(error) => Poll::Ready(Err(error)),
                },
                State::Waiting(wait) => Pin::new(wait).poll(context),
                State::Over => panic!("polled again after it was ready"),
            };
            if polled.is_ready() {
                self.0 = State::Over;
            }
            return polled;
        }
    }
}

impl<H: Enter> fmt::Debug for Acquire<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Acquire");
        match &self.0 {
            State::New(_, cost) => debug.field("cost", cost),
            State::Waiting(_) => debug.field("waiting", &true),
            State::Over => debug.field("over", &true),
        };
        debug.finish_non_exhaustive()
    }
}
