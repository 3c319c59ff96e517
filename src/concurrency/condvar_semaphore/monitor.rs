//! What is under the lock, and how a thread waits for it.
//!
//! 1. Whoever gives a permit back wakes one of those who wait, if anybody does.
//! 2. A token that is cancelled changes `interruptions` under the lock. A waiter looks at its tokens
//!    after it has read that number, and sleeps only while the number is the one that it read. So no
//!    cancellation is missed between looking and sleeping.
//! 3. A token notifies only if somebody sleeps who has not been notified by a token before it: those
//!    who have will look at all their tokens anyway. So a crowd of tokens costs few notifications.
//! 4. Whoever is woken for a permit takes it, unless a token has interrupted it since it went to
//!    sleep. Then that token has woken everybody, so whoever leaves need not hand on what it was
//!    woken for. Deadlines are looked at after the permits.
//! 5. Tokens are looked at without the lock.

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

struct State {
    free: usize,
    waiting: usize,
    closed: bool,
    /// How often a token has called.
    interruptions: u64,
    /// How many sleep who no token has notified since.
    undisturbed: usize,
}

impl State {
    /// Takes a permit, if it can; `None` if one has to wait for it.
    fn take(&mut self) -> Option<Result<(), AcquireError>> {
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
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.lock();
        state.interruptions = state.interruptions.wrapping_add(1);
        let somebody = std::mem::take(&mut state.undisturbed) > 0;
        drop(state);
        // All of them: who is meant is not known here, and many have the same token.
        if somebody {
            self.changed.notify_all();
        }
    }
}

impl Monitor {
    pub(super) fn new(free: usize) -> Self {
        Self {
            state: Mutex::new(State {
                free,
                waiting: 0,
                closed: false,
                interruptions: 0,
                undisturbed: 0,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn free(&self) -> usize {
        self.lock().free
    }

    pub(super) fn waiting(&self) -> usize {
        self.lock().waiting
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    #[inline]
    pub(super) fn try_take(&self) -> Result<(), AcquireError> {
        let taken = self.lock().take();
        taken.unwrap_or(Err(AcquireError::new(ErrorKind::NoPermits)))
    }

    /// Gives a permit back.
    #[inline]
    pub(super) fn give(&self) {
        let mut state = self.lock();
        state.free += 1;
        let somebody = state.waiting > 0;
        drop(state);
        // Without anybody it would be a system call for nothing.
        if somebody {
            self.changed.notify_one();
        }
    }

    /// Takes a permit, and blocks until there is one, a token is cancelled, or the time is over.
    #[inline]
    pub(super) fn take(
        self: &Arc<Self>,
        tokens: &Tokens,
        timeout: Option<Duration>,
    ) -> Result<(), AcquireError> {
        if tokens.is_cancelled() {
            return Err(AcquireError::new(ErrorKind::Cancelled));
        }
        let taken = self.lock().take();
        taken.unwrap_or_else(|| self.take_later(tokens, timeout))
    }

    #[inline(never)]
    fn take_later(
        self: &Arc<Self>,
        tokens: &Tokens,
        timeout: Option<Duration>,
    ) -> Result<(), AcquireError> {
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(AcquireError::new(ErrorKind::TimedOut));
        }
        let deadline = timeout.map(|timeout| Clock::system().now().saturating_add(timeout));
        // From here on a token that is cancelled calls; until this goes out of scope.
        let _registered = tokens.register(&Waker::from(Arc::clone(self)));

        self.lock().waiting += 1;
        let taken = self.wait(tokens, deadline);
        self.lock().waiting -= 1;
        taken
    }

    fn wait(&self, tokens: &Tokens, deadline: Option<Tick>) -> Result<(), AcquireError> {
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
                let left =
                    deadline.map(|deadline| deadline.saturating_since(Clock::system().now()));
                if left.is_some_and(|left| left.is_zero()) {
                    return Err(AcquireError::new(ErrorKind::TimedOut));
                }
                state.undisturbed += 1;
                state = self.sleep(state, left);
                if state.interruptions == seen {
                    state.undisturbed -= 1;
                }
            }
        }
    }

    fn sleep<'a>(
        &self,
        state: MutexGuard<'a, State>,
        at_most: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        let Some(at_most) = at_most else {
            let woken = self.changed.wait(state);
            return woken.unwrap_or_else(PoisonError::into_inner);
        };
        let woken = self.changed.wait_timeout(state, at_most);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }
}
