//! The futures of `acquire`: at first nothing but a wish, then perhaps a place among those who wait.

use std::borrow::Borrow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::state::State;
use crate::error::AcquireError;
use crate::wait_queue::WaiterId;

/// The future of [`Gate::acquire`](crate::Gate::acquire).
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<'a>(Entry<&'a Arc<State>>);

/// The future of [`Gate::acquire_owned`](crate::Gate::acquire_owned).
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireOwned(Entry<Arc<State>>);

struct Entry<S: Borrow<Arc<State>>> {
    state: S,
    stage: Stage,
}

enum Stage {
    New,
    Waiting(WaiterId),
    Over,
}

impl<S: Borrow<Arc<State>>> Entry<S> {
    #[inline]
    fn poll(&mut self, context: &Context<'_>) -> Poll<Result<(), AcquireError>> {
        if let Stage::New = self.stage {
            if self.state.borrow().is_open() {
                self.stage = Stage::Over;
                return Poll::Ready(Ok(()));
            }
        }
        self.poll_shut(context)
    }

    #[inline(never)]
    fn poll_shut(&mut self, context: &Context<'_>) -> Poll<Result<(), AcquireError>> {
        let state = self.state.borrow();
        // If a waker panics when it is cloned, whoever drops this must still find the ticket.
        let polled = match &self.stage {
            Stage::New => match state.join(context.waker()) {
                Ok(result) => Poll::Ready(result),
                Err(ticket) => {
                    self.stage = Stage::Waiting(ticket);
                    state.report_clock();
                    return Poll::Pending;
                }
            },
            Stage::Waiting(ticket) => state.look(ticket, context.waker()),
            Stage::Over => panic!("polled again after it was ready"),
        };
        if polled.is_ready() {
            self.stage = Stage::Over;
        }
        polled
    }

    fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }
}

impl<S: Borrow<Arc<State>>> Drop for Entry<S> {
    #[inline]
    fn drop(&mut self) {
        if let Stage::Waiting(ticket) = &self.stage {
            self.state.borrow().leave(ticket);
        }
    }
}

macro_rules! future {
    ([$($generics:tt)*] $future:ty, $name:literal, $state:ty) => {
        impl<$($generics)*> $future {
            #[inline]
            pub(super) fn new(state: $state) -> Self {
                Self(Entry { state, stage: Stage::New })
            }
        }

        impl<$($generics)*> Future for $future {
            type Output = Result<(), AcquireError>;

            #[inline]
            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                self.0.poll(context)
            }
        }

        impl<$($generics)*> fmt::Debug for $future {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name)
                    .field("waits", &self.0.waits())
                    .finish_non_exhaustive()
            }
        }

    };
}

future!(['a] Acquire<'a>, "Acquire", &'a Arc<State>);
future!([] AcquireOwned, "AcquireOwned", Arc<State>);
