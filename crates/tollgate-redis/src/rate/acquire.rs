//! [`Acquire`]: waiting for a limit on a server.

use std::fmt;
use std::sync::Arc;
use std::task::Context;
use std::time::Instant;

use tokio::sync::oneshot;
use tollgate::throttle::remaining_timeout;
use tollgate::{AcquireError, ErrorKind};

use super::charge::{Charge, Source};
use super::core::Core;
use super::driver::{Begin, drive};
use super::line::{Answer, Waiter};
use crate::wait::{Joined, Wait, future};

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
    wait: Wait<Charge>,
    /// By which number this polls the driver, if it does.
    drives: Option<u64>,
}

impl Acquire {
    pub(super) fn new(core: Arc<Core>, cost: u64, tries: bool) -> Self {
        Self {
            core,
            cost,
            tries,
            wait: Wait::New,
            drives: None,
        }
    }

    /// Joins the line, or is answered at once.
    fn join(&mut self) -> Joined<Charge> {
        if let Some(charge) = self.take() {
            return Err(Ok(charge));
        }
        let (receiver, begin) = self.join_line()?;
        self.drives = self.core.begin(begin);
        Ok(receiver)
    }

    /// What the wait is polled with, before it looks for its answer.
    fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(number) = self.drives
            && !self.core.poll_driver(number, context)
        {
            self.drives = None;
        }
    }

    fn join_line(&self) -> Result<(oneshot::Receiver<Answer>, Begin), Answer> {
        let core = &self.core;
        let state = &mut *core.state();
        let limit = state.rule.most_at_once(core.options.oversize);
        if state.closed {
            return Err(Err(AcquireError::new(ErrorKind::Closed)));
        }
        if self.cost == 0 {
            return Err(Ok(Charge::open(0, Source::Nobody)));
        }
        if self.cost > limit {
            return Err(Err(AcquireError::exceeds_capacity(limit)));
        }
        let budget = remaining_timeout();
        let now = (self.tries || budget.is_some()).then(Instant::now);
        let known = now.and_then(|now| state.line.wait(&state.rule, self.cost, now));
        if let Some(wait) = known {
            if self.tries {
                let wait = state.line.jittered(wait);
                return Err(Err(Source::Known.limited(wait)));
            }
            if budget.is_some_and(|budget| wait > budget) {
                return Err(Err(AcquireError::would_take(wait)));
            }
        }
        if !self.tries && state.line.len() >= core.options.max_waiters && {
            let now = now.unwrap_or_else(Instant::now);
            state.line.is_full(now)
        } {
            return Err(Err(AcquireError::new(ErrorKind::QueueFull)));
        }
        let (sender, receiver) = oneshot::channel();
        state.line.join(Waiter {
            cost: self.cost,
            tries: self.tries,
            until: budget.and_then(|budget| now?.checked_add(budget)),
            answer: sender,
        });
        if let Some(ahead) = &core.ahead {
            ahead.purse.shut(true);
        }
        Ok((receiver, drive(core, state, true)))
    }

    /// Out of what was taken ahead, without the lock.
    #[inline]
    fn take(&self) -> Option<Charge> {
        let ahead = self.core.ahead.as_ref().filter(|_| self.cost > 0)?;
        let now = || ahead.now().as_nanos();
        let taken = ahead.purse.take(self.cost, now)?;
        if taken.tell {
            self.core.stirred.notify_one();
        }
        Some(ahead.charge(self.cost, taken))
    }
}

future!(Acquire, Charge);

impl Drop for Acquire {
    fn drop(&mut self) {
        match self.wait.leave() {
            Some(Some(Ok(charge))) => self.core.give_later(vec![charge]),
            // Those behind may move up.
            Some(None) => self.core.stirred.notify_one(),
            Some(Some(Err(_))) | None => {}
        }
        if let Some(number) = self.drives {
            // It goes on: those behind wait for it, and what is charged is given back.
            self.core.hand_over(number);
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
