//! [`AcquireLease`]: waiting for a permit of a semaphore on a server.

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
use tollgate::{AcquireError, CancelOn, ErrorKind, Timeout};

use super::core::{Core, id};
use super::driver::drive;
use super::guard::Lease;
use super::keeper::nothing;
use super::line::{Answer, Waiter, capacity};

/// The future of `acquire`, `try_acquire` and their like of a [`Semaphore`](super::Semaphore).
///
/// It joins the line when it is first polled.
///
/// # Cancel safety
///
/// Dropped while it waits, it leaves the line, and its ticket is given back in the background.
/// Dropped while the server is being asked, what it is granted is given back when the answer is
/// there.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireLease {
    core: Arc<Core>,
    n: u32,
    tries: bool,
    state: State,
}

enum State {
    New,
    Waiting(oneshot::Receiver<Answer>),
    Over,
}

impl AcquireLease {
    pub(super) fn new(core: Arc<Core>, n: u32, tries: bool) -> Self {
        Self {
            core,
            n,
            tries,
            state: State::New,
        }
    }

    /// Joins the line, or is answered at once.
    fn join(&self) -> Result<oneshot::Receiver<Answer>, Answer> {
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
            until: budget().and_then(|budget| Instant::now().checked_add(budget)),
            answer: sender,
        });
        let driver = drive(core, &mut state);
        drop(state);
        if let Some(driver) = driver {
            core.store.spawn(driver);
        }
        Ok(receiver)
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
    pub fn wait(self) -> Result<Lease, AcquireError> {
        Timeout::new(self, Duration::MAX).wait()
    }
}

impl Future for AcquireLease {
    type Output = Result<Lease, AcquireError>;

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

impl Drop for AcquireLease {
    fn drop(&mut self) {
        let State::Waiting(receiver) = &mut self.state else {
            return;
        };
        receiver.close();
        // A lease that is there already is given back by dropping it.
        drop(receiver.try_recv());
        self.core.stirred.notify_one();
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
