//! What is under the lock, and how a thread waits for it.
//!
//! 1. Whoever gives a permit back wakes one of those who wait, if anybody does.
//! 2. A token that is cancelled changes `interruptions` under the lock, and then wakes everybody. A
//!    waiter looks at its tokens after it has read that number, and sleeps only while the number is the
//!    one that it read. So no cancellation is missed between looking and sleeping.
//! 3. Whoever is woken for a permit takes it, unless a token has interrupted it since it went to
//!    sleep. Then that token wakes everybody, so whoever leaves need not hand on what it was woken
//!    for. Deadlines are looked at after the permits.
//! 4. Tokens are looked at without the lock: a parent calls its children's waiters under its own.

use std::sync::{Arc, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::tokens::Tokens;
use crate::error::{AcquireError, ErrorKind};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};
use crate::time::{Clock, Tick};

/// The lock and the condition variable.
pub(super) struct Monitor {
    state: Mutex<State>,
    changed: Condvar,
}

pub(super) struct State {
    pub(super) free: usize,
    pub(super) waiting: usize,
    pub(super) closed: bool,
    /// How often a token has called.
    interruptions: u64,
}

impl State {
    /// Takes a permit, if it can; `None` if one has to wait for it.
    pub(super) fn take(&mut self) -> Option<Result<(), AcquireError>> {
        if self.closed {
            return Some(Err(AcquireError::new(ErrorKind::Closed)));
        }
        self.free = self.free.checked_sub(1)?;
        Some(Ok(()))
    }
}

/// A token calls.
impl Wake for Monitor {
    fn wake(self: Arc<Self>) {
        self.lock().interruptions += 1;
        // All of them: who is meant is not known here, and many have the same token.
        self.changed.notify_all();
    }
}

impl Monitor {
    pub(super) fn new(free: usize) -> Self {
        let state = State {
            free,
            waiting: 0,
            closed: false,
            interruptions: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Gives permits back.
    #[inline]
    pub(super) fn give(&self, permits: usize) {
        let mut state = self.lock();
        state.free += permits;
        let somebody = state.waiting > 0;
        drop(state);
        // Without anybody it would be a system call for nothing.
        if somebody {
            (0..permits).for_each(|_| self.changed.notify_one());
        }
    }

    /// Blocks until there is a permit, a token is cancelled, or the time is over.
    #[inline(never)]
    pub(super) fn block(
        self: &Arc<Self>,
        tokens: &Tokens,
        timeout: Option<Duration>,
    ) -> Result<(), AcquireError> {
        let deadline = timeout.map(|timeout| Clock::system().now().saturating_add(timeout));
        // From here on a token that is cancelled calls; until this goes out of scope.
        let _registered = tokens.register(&Waker::from(Arc::clone(self)));

        self.lock().waiting += 1;
        let taken = self.wait(tokens, deadline);
        self.lock().waiting -= 1;
        taken
    }

    fn wait(&self, tokens: &Tokens, deadline: Option<Tick>) -> Result<(), AcquireError> {
        let left = || match deadline {
            Some(deadline) => deadline.saturating_since(Clock::system().now()),
            None => Duration::MAX,
        };
        loop {
            let seen = self.lock().interruptions;
            if tokens.is_cancelled() {
                return Err(AcquireError::new(ErrorKind::Cancelled));
            }
            let mut state = self.lock();
            while state.interruptions == seen {
                if let Some(taken) = state.take() {
                    return taken;
                }
                // Looked at after the permits: one that came with the deadline is taken.
                let left = left();
                if left.is_zero() {
                    return Err(AcquireError::new(ErrorKind::TimedOut));
                }
                let woken = self.changed.wait_timeout(state, left);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}
