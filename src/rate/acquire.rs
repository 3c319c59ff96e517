//! [`Acquire`]: the future of a rate limiter. It starts as a request and may become a waiter in the
//! queue.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::charge::Charge;
use super::limiter::RateLimiter;
use super::shared::{Decided, Shared};
use crate::error::AcquireError;
use crate::wait_queue::WaiterId;

/// The future of `acquire` and `acquire_many` of a rate limiter or a leaky bucket. `S` is a
/// reference or an `Arc` to the limiter.
///
/// It joins the queue when it is first polled. See [the limiter](crate::RateLimiter#cancel-safety)
/// for what dropping it does.
///
/// # Panics
///
/// Panics if it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<S: Deref<Target = RateLimiter>> {
    limiter: S,
    entry: Entry,
}

/// A request to a limiter. Its owner passes the limiter to each method.
pub(super) struct Entry {
    cost: u64,
    state: State,
}

enum State {
    New,
    Waiting(WaiterId),
    Over,
}

impl Entry {
    #[inline]
    pub(super) fn new(cost: u64) -> Self {
        Self {
            cost,
            state: State::New,
        }
    }

    #[inline(always)]
    pub(super) fn poll(
        &mut self,
        shared: &Shared,
        context: &Context<'_>,
    ) -> Poll<Result<Charge, AcquireError>> {
        if !self.is_new() {
            return self.poll_queue(shared, context);
        }
        match shared.decide_at_once(self.cost, self.cost) {
            Decided::Charged(charge) => {
                self.state = State::Over;
                Poll::Ready(Ok(charge))
            }
            Decided::Limited { .. } => self.poll_queue(shared, context),
            Decided::Locked | Decided::Lost => self.poll_slowly(shared, context),
        }
    }

    /// Does the same for a new request, for any clock.
    #[inline(never)]
    fn poll_slowly(
        &mut self,
        shared: &Shared,
        context: &Context<'_>,
    ) -> Poll<Result<Charge, AcquireError>> {
        match shared.charge_if_free(self.cost, self.cost) {
            Some(charge) => {
                self.state = State::Over;
                Poll::Ready(Ok(charge))
            }
            None => self.poll_queue(shared, context),
        }
    }

    /// Joins the queue, or checks the waiter's status there.
    #[inline(never)]
    pub(super) fn poll_queue(
        &mut self,
        shared: &Shared,
        context: &Context<'_>,
    ) -> Poll<Result<Charge, AcquireError>> {
        // A waker may panic when it is cloned; drop must still find the waiter's slot then.
        let polled = match &self.state {
            State::New => match shared.join(self.cost, context.waker()) {
                Ok(charged) => Poll::Ready(charged),
                Err((id, due)) => {
                    self.state = State::Waiting(id);
                    shared.arm(due);
                    Poll::Pending
                }
            },
            State::Waiting(id) => shared.poll_waiter(id, context.waker()),
            State::Over => panic!("polled again after it was ready"),
        };
        if polled.is_ready() {
            self.state = State::Over;
        }
        polled
    }

    /// Returns the id of its slot in the queue, if it has one.
    pub(super) fn id(&self) -> Option<&WaiterId> {
        match &self.state {
            State::Waiting(id) => Some(id),
            State::New | State::Over => None,
        }
    }

    /// Leaves the queue, or gives back what it was granted there.
    #[inline(never)]
    pub(super) fn leave(&mut self, shared: &Shared) {
        if let State::Waiting(id) = std::mem::replace(&mut self.state, State::Over) {
            shared.leave(id, self.cost);
        }
    }

    /// Returns whether it has not been polled yet.
    #[inline]
    pub(super) fn is_new(&self) -> bool {
        matches!(self.state, State::New)
    }

    /// Sets the cost. Only valid while it is [new](Self::is_new).
    pub(super) fn set_cost(&mut self, cost: u64) {
        self.cost = cost;
    }

    /// Marks it as complete. Only valid while it is [new](Self::is_new).
    #[inline]
    pub(super) fn finish(&mut self) {
        self.state = State::Over;
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost
    }
}

impl<S: Deref<Target = RateLimiter>> Acquire<S> {
    #[inline]
    pub(super) fn new(limiter: S, cost: u64) -> Self {
        Self {
            limiter,
            entry: Entry::new(cost),
        }
    }

    /// Starts a new request after this one was ready.
    #[cfg(feature = "stream")]
    pub(crate) fn renew(&mut self) {
        self.entry.leave(self.limiter.shared());
        self.entry = Entry::new(self.entry.cost);
    }
}

impl<S: Deref<Target = RateLimiter> + Unpin> Future for Acquire<S> {
    type Output = Result<Charge, AcquireError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { limiter, entry } = &mut *self;
        entry.poll(limiter.shared(), context)
    }
}

impl<S: Deref<Target = RateLimiter>> Drop for Acquire<S> {
    #[inline]
    fn drop(&mut self) {
        if self.entry.id().is_some() {
            self.entry.leave(self.limiter.shared());
        }
    }
}

impl<S: Deref<Target = RateLimiter>> fmt::Debug for Acquire<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("cost", &self.entry.cost)
            .field("waiting", &self.entry.id().is_some())
            .finish_non_exhaustive()
    }
}
