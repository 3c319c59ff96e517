//! [`Acquire`]: the future of a rate limiter. It starts as a request and may become a waiter in the
//! queue.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::charge::Charge;
use super::limiter::RateLimiter;
use super::shared::{Decided, Shared};
use crate::error::AcquireError;
use crate::time::Tick;
use crate::wait_queue::WaiterId;

/// What is waited for as a rate limiter.
pub trait Limiter {
    fn limiter(&self) -> &RateLimiter;
}

impl Limiter for RateLimiter {
    #[inline(always)]
    fn limiter(&self) -> &RateLimiter {
        self
    }
}

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
pub struct Acquire<S: Deref<Target: Limiter>> {
    source: S,
    pub(super) cost: u64,
    stage: Stage,
}

/// How far a call is.
pub(super) enum Stage {
    New,
    /// New, and it counts as having come at this tick.
    AsOf(Tick),
    Waiting(WaiterId),
    Over,
}

impl<S: Deref<Target: Limiter>> Acquire<S> {
    #[inline]
    pub(crate) fn new(source: S, cost: u64) -> Self {
        Self {
            source,
            cost,
            stage: Stage::New,
        }
    }

    /// Creates a request that counts as having come at `tick`.
    pub(crate) fn as_of(source: S, cost: u64, tick: Tick) -> Self {
        Self {
            source,
            cost,
            stage: Stage::AsOf(tick),
        }
    }

    #[inline]
    pub(crate) fn source(&self) -> &S {
        &self.source
    }

    /// Returns whether it has not been polled yet.
    #[inline(always)]
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.stage, Stage::New | Stage::AsOf(_))
    }

    /// Charges now if it is new and need not wait; otherwise polls the queue.
    #[inline(always)]
    fn poll_now(&mut self, context: &Context<'_>) -> Poll<Result<Charge, AcquireError>> {
        if let Stage::New = self.stage {
            match self.shared().decide_at_once(self.cost, self.cost) {
                Decided::Charged(charge) => {
                    self.stage = Stage::Over;
                    return Poll::Ready(Ok(charge));
                }
                Decided::Limited { .. } => {}
                Decided::Otherwise | Decided::Lost => return self.poll_slowly(context),
            }
        }
        self.poll_queue(context)
    }

    /// Does the same for a new request, for any clock.
    #[inline(never)]
    fn poll_slowly(&mut self, context: &Context<'_>) -> Poll<Result<Charge, AcquireError>> {
        if let Some(charge) = self.shared().charge_if_free(self.cost) {
            self.stage = Stage::Over;
            return Poll::Ready(Ok(charge));
        }
        self.poll_queue(context)
    }

    /// Joins the queue, or checks the waiter's status there.
    #[inline(never)]
    fn poll_queue(&mut self, context: &Context<'_>) -> Poll<Result<Charge, AcquireError>> {
        let waker = context.waker();
        loop {
            let polled = match &self.stage {
                // A waker may panic when it is cloned; drop must still find the waiter's slot then.
                Stage::New | Stage::AsOf(_) => {
                    let here = self.source.limiter().here();
                    here.join(self.cost, waker, &mut self.stage)
                }
                Stage::Waiting(id) => self.poll_in_queue(id, waker),
                Stage::Over => panic!("polled again after it was ready"),
            };
            if let Some(polled) = polled {
                if polled.is_ready() {
                    self.stage = Stage::Over;
                }
                return polled;
            }
            if self.is_waiting() {
                self.leave();
                self.stage = Stage::New;
            }
        }
    }

    /// Polls the waiter where it is in the queue. Returns `None` if it has to join the queue of
    /// another runtime: the one that it joined in is not that of the current poll, or has ended.
    fn poll_in_queue(
        &self,
        id: &WaiterId,
        waker: &Waker,
    ) -> Option<Poll<Result<Charge, AcquireError>>> {
        let state = self.limiter().state_of(id);
        match state.clock().is_elsewhere() {
            true => state.collect_served(id).map(Poll::Ready),
            false => state.poll_waiter(id, waker),
        }
    }

    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    /// Returns when its turn comes, and the current tick, if it waits.
    pub(super) fn due(&self) -> Option<(Tick, Tick)> {
        match &self.stage {
            Stage::Waiting(id) => self.limiter().state_of(id).due_of(id),
            Stage::New | Stage::AsOf(_) | Stage::Over => None,
        }
    }

    /// Leaves the queue, or gives back what it was granted there.
    #[inline(never)]
    pub(super) fn leave(&mut self) {
        if let Stage::Waiting(id) = std::mem::replace(&mut self.stage, Stage::Over) {
            self.limiter().state_of(&id).leave(id, self.cost);
        }
    }

    #[inline(always)]
    fn limiter(&self) -> &RateLimiter {
        self.source.limiter()
    }

    fn shared(&self) -> &Arc<Shared> {
        self.limiter().shared()
    }
}

impl<S: Deref<Target: Limiter> + Unpin> Future for Acquire<S> {
    type Output = Result<Charge, AcquireError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_now(context)
    }
}

impl<S: Deref<Target: Limiter>> Drop for Acquire<S> {
    #[inline]
    fn drop(&mut self) {
        if self.is_waiting() {
            self.leave();
        }
    }
}

impl<S: Deref<Target: Limiter>> fmt::Debug for Acquire<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("cost", &self.cost)
            .field("waiting", &self.is_waiting())
            .finish_non_exhaustive()
    }
}
