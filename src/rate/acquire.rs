//! The futures of `acquire`: at first nothing but a request, then perhaps a ticket in the line.

use std::borrow::Borrow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::charge::Charge;
use super::core::Core;
use crate::error::AcquireError;
use crate::line::Ticket;
use crate::wait::combinators;

/// The future of `acquire` and `acquire_many` of a rate limiter or a leaky bucket.
///
/// It joins the line when it is first polled. See [the limiter](crate::RateLimiter#cancel-safety)
/// for what dropping it does.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<'a>(Entry<&'a Arc<Core>>);

/// The future of `acquire_owned` and `acquire_many_owned` of a rate limiter or a leaky bucket.
///
/// It joins the line when it is first polled. See [the limiter](crate::RateLimiter#cancel-safety)
/// for what dropping it does.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireOwned(Entry<Arc<Core>>);

/// A request to the limiter that `S` leads to.
pub(super) struct Entry<S: Borrow<Arc<Core>>> {
    core: S,
    cost: u64,
    state: State,
}

enum State {
    New,
    InLine(Ticket),
    Over,
}

impl<S: Borrow<Arc<Core>>> Entry<S> {
    #[inline]
    pub(super) fn new(core: S, cost: u64) -> Self {
        Self {
            core,
            cost,
            state: State::New,
        }
    }

    #[inline]
    pub(super) fn poll(&mut self, context: &Context<'_>) -> Poll<Result<Charge, AcquireError>> {
        if let State::New = self.state {
            if let Some(charge) = self.core.borrow().take_free(self.cost) {
                self.state = State::Over;
                return Poll::Ready(Ok(charge));
            }
        }
        self.poll_line(context)
    }

    /// A poll that has to join the line, or to look how it goes there.
    #[inline(never)]
    fn poll_line(&mut self, context: &Context<'_>) -> Poll<Result<Charge, AcquireError>> {
        let core = self.core.borrow();
        // If a waker panics when it is cloned, whoever drops this must still find the ticket.
        let polled = match &self.state {
            State::New => {
                let joined = core.join(self.cost, context.waker());
                match joined {
                    Ok(charged) => Poll::Ready(charged),
                    Err((ticket, arm)) => {
                        self.state = State::InLine(ticket);
                        core.arm(arm);
                        Poll::Pending
                    }
                }
            }
            State::InLine(ticket) => core.look(ticket, self.cost, context.waker()),
            State::Over => panic!("polled again after it was ready"),
        };
        if polled.is_ready() {
            self.state = State::Over;
        }
        polled
    }

    /// Its place in line, if it has one.
    pub(super) fn ticket(&self) -> Option<&Ticket> {
        match &self.state {
            State::InLine(ticket) => Some(ticket),
            State::New | State::Over => None,
        }
    }

    /// Gives up its place, or what it was granted there.
    #[inline]
    pub(super) fn leave(&mut self) {
        if let Some(ticket) = self.take_ticket() {
            self.core.borrow().leave(ticket, self.cost);
        }
    }

    /// Gives up the right to its place.
    pub(super) fn take_ticket(&mut self) -> Option<Ticket> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::InLine(ticket) => Some(ticket),
            State::New | State::Over => None,
        }
    }

    /// Whether it was not polled yet.
    #[inline]
    pub(super) fn is_new(&self) -> bool {
        matches!(self.state, State::New)
    }

    /// Asks for so much instead. Only while it is [new](Self::is_new).
    pub(super) fn set_cost(&mut self, cost: u64) {
        self.cost = cost;
    }

    /// Needs nothing any more. Only while it is [new](Self::is_new).
    #[inline]
    pub(super) fn finish(&mut self) {
        self.state = State::Over;
    }

    /// Asks anew, after it was ready.
    #[cfg(feature = "stream")]
    fn renew(&mut self) {
        self.leave();
        self.state = State::New;
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        self.core.borrow()
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost
    }
}

impl<S: Borrow<Arc<Core>>> Drop for Entry<S> {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

macro_rules! future {
    ([$($generics:tt)*] $future:ty, $name:literal, $source:ty) => {
        impl<$($generics)*> $future {
            #[inline]
            pub(super) fn new(core: $source, cost: u64) -> Self {
                Self(Entry::new(core, cost))
            }

            /// Asks anew, after it was ready.
            #[cfg(feature = "stream")]
            #[allow(dead_code, reason = "streams are of borrowed futures only")]
            pub(crate) fn renew(&mut self) {
                self.0.renew();
            }
        }

        impl<$($generics)*> Future for $future {
            type Output = Result<Charge, AcquireError>;

            #[inline]
            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                self.0.poll(context)
            }
        }

        impl<$($generics)*> fmt::Debug for $future {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name)
                    .field("cost", &self.0.cost)
                    .field("in_line", &self.0.ticket().is_some())
                    .finish_non_exhaustive()
            }
        }

        combinators!([$($generics)*] $future);
    };
}

future!(['a] Acquire<'a>, "Acquire", &'a Arc<Core>);
future!([] AcquireOwned, "AcquireOwned", Arc<Core>);
