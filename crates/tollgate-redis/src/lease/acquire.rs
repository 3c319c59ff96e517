//! [`AcquireLease`]: waiting for a permit of a semaphore on a server.

use std::fmt;
use std::sync::Arc;
use std::task::Context;
use std::time::Instant;

use tokio::sync::oneshot;
use tollgate::throttle::remaining_timeout;
use tollgate::{AcquireError, ErrorKind};

use super::core::{Core, id};
use super::driver::drive;
use super::guard::Lease;
use super::keeper::nothing;
use super::line::{Waiter, capacity};
use crate::wait::{Joined, Wait, future};

/// The future of `acquire`, `try_acquire` and their like of a [`Semaphore`](super::Semaphore).
///
/// It joins the line when it is first polled, and can be polled anywhere, also outside of the store's
/// runtime.
///
/// # Cancel safety
///
/// Dropped while it waits, it leaves the line, and its ticket is given back in the background.
/// Dropped while the server is being asked, what it is granted is given back when the answer is
/// there.
///
/// # Errors
///
/// Those of what made it. When it is told that the store failed, nothing is left on the server, or
/// it goes as soon as the store is back: neither a ticket, nor what was perhaps granted.
///
/// # Panics
///
/// If it is polled again after it was ready.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate_redis::{Semaphore, Store};
/// use tokio_util::sync::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = Store::new("redis://127.0.0.1/")?;
/// let (exports, shutdown) = (Semaphore::new(&store, "exports", 4), CancellationToken::new());
/// let lease = exports
///     .acquire_many(2)
///     .timeout(Duration::from_secs(5))
///     .cancel_on(&shutdown)
///     .await?;
/// assert_eq!(lease.count(), 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireLease {
    core: Arc<Core>,
    n: u32,
    tries: bool,
    wait: Wait<Lease>,
}

impl AcquireLease {
    pub(super) fn new(core: Arc<Core>, n: u32, tries: bool) -> Self {
        Self {
            core,
            n,
            tries,
            wait: Wait::New,
        }
    }

    /// The line is looked after by a task.
    fn drive(&mut self, _: &mut Context<'_>) {}

    /// Joins the line, or is answered at once.
    fn join(&self) -> Joined<Lease> {
        let core = &self.core;
        let mut state = core.state();
        if state.closed {
            return Err(Err(AcquireError::new(ErrorKind::Closed)));
        }
        if self.n == 0 {
            return Err(Ok(nothing()));
        }
        let capacity = capacity(state.limit());
        if u64::from(self.n) > capacity {
            return Err(Err(AcquireError::exceeds_capacity(capacity)));
        }
        if self.tries && state.line.is_waiting() {
            return Err(Err(AcquireError::new(ErrorKind::NoPermits)));
        }
        if !self.tries && state.line.waiters.len() >= core.options.max_waiters {
            return Err(Err(AcquireError::new(ErrorKind::QueueFull)));
        }
        let (sender, receiver) = oneshot::channel();
        state.line.waiters.push_back(Waiter {
            id: id(),
            n: self.n,
            tries: self.tries,
            ticket: 0,
            until: remaining_timeout().and_then(|budget| Instant::now().checked_add(budget)),
            answer: sender,
        });
        let driver = drive(core, &mut state);
        drop(state);
        if let Some(driver) = driver {
            core.store.spawn(driver);
        }
        Ok(receiver)
    }
}

future!(AcquireLease, Lease);

impl Drop for AcquireLease {
    fn drop(&mut self) {
        if let Some(answer) = self.wait.leave() {
            // A lease that is there already is given back by dropping it.
            drop(answer);
            self.core.stirred.notify_one();
        }
    }
}

impl fmt::Debug for AcquireLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireLease")
            .field("key", &self.core.keys.key())
            .field("n", &self.n)
            .finish_non_exhaustive()
    }
}
