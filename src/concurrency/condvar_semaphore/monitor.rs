//! The state under the lock, and the wait of a thread for a change of it.
//!
//! 1. A holder that returns a permit wakes one waiter, if there is one.
//! 2. A token that is cancelled increments `interruptions` under the lock, and then wakes all
//!    waiters. A waiter checks its tokens after it has read that number, and sleeps only while the
//!    number is the one that it read. So no cancellation is missed between the check and the sleep.
//! 3. A waiter that is woken for a permit takes it, unless a token has interrupted it since it went
//!    to sleep. In that case the token wakes all waiters, so a waiter that leaves need not pass on
//!    its wakeup. Deadlines are checked after the permits.
//! 4. Tokens are checked without the lock: a parent token calls its children's waiters under its
//!    own lock.

use std::sync::{Arc, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

#[cfg(feature = "tokio")]
pub(super) use tokio_util::sync::CancellationToken;

use crate::error::{AcquireError, ErrorKind};
use crate::sync::{Condvar, Mutex, lock};
use crate::time::{Clock, Tick};

/// The lock and the condition variable.
pub(super) struct Monitor {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) free: usize,
    pub(super) waiting: usize,
    pub(super) closed: bool,
    /// The number of cancellations of tokens so far.
    pub(super) interruptions: u64,
}

impl State {
    /// Takes a permit if one is free, and returns whether it did. An error if the semaphore is closed.
    pub(super) fn take(&mut self) -> Result<bool, AcquireError> {
        if self.closed {
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        let is_free = self.free > 0;
        self.free -= usize::from(is_free);
        Ok(is_free)
    }
}

/// Called by a token when it is cancelled.
impl Wake for Monitor {
    fn wake(self: Arc<Self>) {
        lock(&self.state).interruptions += 1;
        // Wakes all waiters: several may have the same token, and it is not known here which of them do.
        self.changed.notify_all();
    }
}

impl Monitor {
    /// Blocks until a permit is free, a token is cancelled, or the timeout expires.
    #[inline(never)]
    pub(super) fn block(
        self: &Arc<Self>,
        tokens: &[CancellationToken],
        timeout: Option<Duration>,
    ) -> Result<(), AcquireError> {
        let deadline = timeout.map(|timeout| Clock::system().now().saturating_add(timeout));
        let waker = Waker::from(Arc::clone(self));
        // Until these are dropped, at the end of the scope, a token that is cancelled calls the waker.
        let mut registrations: Vec<_> = tokens
            .iter()
            .map(|token| Box::pin(token.cancelled()))
            .collect();
        for registration in &mut registrations {
            // The next check finds a token that is already cancelled.
            let _ = registration.as_mut().poll(&mut Context::from_waker(&waker));
        }

        lock(&self.state).waiting += 1;
        let taken = self.wait(tokens, deadline);
        lock(&self.state).waiting -= 1;
        taken
    }

    fn wait(
        &self,
        tokens: &[CancellationToken],
        deadline: Option<Tick>,
    ) -> Result<(), AcquireError> {
        loop {
            let seen = lock(&self.state).interruptions;
            if tokens.iter().any(CancellationToken::is_cancelled) {
                return Err(AcquireError::new(ErrorKind::Cancelled));
            }
            let mut state = lock(&self.state);
            while state.interruptions == seen {
                if state.take()? {
                    return Ok(());
                }
                // The deadline is checked after the permits: a permit that came at the deadline is
                // taken.
                let left = deadline.map_or(Duration::MAX, |deadline| {
                    deadline.saturating_since(Clock::system().now())
                });
                if left.is_zero() {
                    return Err(AcquireError::new(ErrorKind::TimedOut));
                }
                let woken = self.changed.wait_timeout(state, left);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// Replaces the token where the crate is built without tokio: it has no values.
#[cfg(not(feature = "tokio"))]
pub(super) enum CancellationToken {}

#[cfg(not(feature = "tokio"))]
impl CancellationToken {
    pub(super) fn is_cancelled(&self) -> bool {
        match *self {}
    }

    pub(super) async fn cancelled(&self) {
        match *self {}
    }
}
