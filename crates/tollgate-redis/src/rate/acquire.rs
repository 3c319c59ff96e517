//! [`Acquire`]: waiting for a limit on a server.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;
use tollgate::throttle::budget;
use tollgate::{AcquireError, ErrorKind, Oversize};

use super::charge::{Charge, Source};
use super::core::Core;
use super::driver::{Driver, drive};
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
}

impl Acquire {
    pub(super) fn new(core: Arc<Core>, cost: u64, tries: bool) -> Self {
        Self {
            core,
            cost,
            tries,
            wait: Wait::New,
        }
    }

    /// Joins the line, or is answered at once.
    fn join(&self) -> Joined<Charge> {
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
