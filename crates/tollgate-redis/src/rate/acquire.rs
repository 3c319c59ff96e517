//! [`Acquire`]: waiting for a limit on a server.

use std::borrow::Borrow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tollgate::throttle::budget;
use tollgate::{AcquireError, CancelOn, ErrorKind, Oversize, Timeout};

use super::charge::{Charge, Source};
use super::core::Core;
use super::driver::{Driver, drive};
use super::line::{Answer, Waiter};

/// The future of `acquire`, `try_acquire` and their like of a [`RateLimiter`](super::RateLimiter).
///
/// It joins the line when it is first polled.
///
/// # Cancel safety
///
/// Dropped while it waits, it leaves the line, and those behind it move up. Dropped while the
/// server is being asked, what it is charged is given back when the answer is there.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire {
    core: Arc<Core>,
    cost: u64,
    tries: bool,
    state: State,
}

enum State {
    New,
    Waiting(oneshot::Receiver<Answer>),
    Over,
}

impl Acquire {
    pub(super) fn new(core: Arc<Core>, cost: u64, tries: bool) -> Self {
        Self {
            core,
            cost,
            tries,
            state: State::New,
        }
    }

    /// Joins the line, or is answered at once.
    fn join(&self) -> Result<oneshot::Receiver<Answer>, Answer> {
        if let Some(charge) = self.take() {
            return Err(Ok(charge));
        }
        let (receiver, driver) = self.join_line()?;
        if let Some(driver) = driver {
            driver.begin();
        }
        Ok(receiver)
    }

    fn join_line(&self) -> Result<(oneshot::Receiver<Answer>, Option<Driver>), Answer> {
        let core = &self.core;
        let state = &mut *core.state();
        let limit = state.rule.burst;
        if state.closed {
            return Err(Err(AcquireError::new(ErrorKind::Closed)));
        }
        if self.cost == 0 {
            return Err(Ok(Charge::open(0, Source::Store)));
        }
        if self.cost > limit && core.options.oversize != Oversize::Debt {
            return Err(Err(AcquireError::exceeds_capacity(limit)));
        }
        let (now, budget) = (Instant::now(), budget());
        let matters = self.tries || budget.is_some();
        let known = matters.then(|| state.line.wait(&state.rule, self.cost, now));
        if let Some(wait) = known.flatten() {
            if self.tries {
                return Err(Err(AcquireError::limited(wait)));
            }
            if budget.is_some_and(|budget| wait > budget) {
                return Err(Err(AcquireError::would_take(wait)));
            }
        }
        if !self.tries && state.line.waiters.len() >= core.options.max_waiters {
            return Err(Err(AcquireError::new(ErrorKind::QueueFull)));
        }
        let (sender, receiver) = oneshot::channel();
        state.line.waiters.push_back(Waiter {
            cost: self.cost,
            tries: self.tries,
            until: budget.and_then(|budget| now.checked_add(budget)),
            answer: sender,
        });
        if let Some(purse) = &core.purse {
            purse.shut(true);
        }
        Ok((receiver, drive(core, state)))
    }

    /// Out of what was taken ahead, without the lock.
    #[inline]
    fn take(&self) -> Option<Charge> {
        let purse = self.core.purse.as_ref().filter(|_| self.cost > 0)?;
        let taken = purse.take(self.cost)?;
        if taken.tell {
            self.core.stirred.notify_one();
        }
        Some(Core::taken(purse.chunk, self.cost, taken))
    }

    /// Gives up on the token's word.
    ///
    /// As every wait of tollgate has it: a token that is cancelled already wins at once.
    pub fn cancel_on<C: Borrow<CancellationToken>>(self, token: C) -> CancelOn<Self, C> {
        CancelOn::new(self, token)
    }

    /// Gives up after a time, and at once if it is known that the wait would be longer.
    pub fn timeout(self, duration: Duration) -> Timeout<Self> {
        Timeout::new(self, duration)
    }

    /// Blocks the thread until the answer is there. Not for use inside asynchronous code.
    ///
    /// # Errors
    ///
    /// As awaiting it.
    pub fn wait(self) -> Result<Charge, AcquireError> {
        Timeout::new(self, Duration::MAX).wait()
    }
}

impl Future for Acquire {
    type Output = Result<Charge, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::New = self.state {
            match self.join() {
                Ok(receiver) => self.state = State::Waiting(receiver),
                Err(answer) => {
                    self.state = State::Over;
                    return Poll::Ready(answer);
                }
            }
        }
        let State::Waiting(receiver) = &mut self.state else {
            panic!("polled again after it was ready");
        };
        let Poll::Ready(received) = Pin::new(receiver).poll(context) else {
            return Poll::Pending;
        };
        self.state = State::Over;
        Poll::Ready(received.unwrap_or(Err(AcquireError::new(ErrorKind::Closed))))
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let State::Waiting(receiver) = &mut self.state else {
            return;
        };
        receiver.close();
        match receiver.try_recv() {
            Ok(Ok(charge)) => self.core.give_later(vec![charge]),
            Ok(Err(_)) => {}
            // Those behind may move up.
            Err(_) => self.core.stirred.notify_one(),
        }
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("key", &self.core.key)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}
