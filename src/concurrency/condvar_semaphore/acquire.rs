//! A request for a permit, with the tokens and the timeout that can end its wait.

use std::ops::Deref;
use std::time::Duration;

use super::CondvarSemaphore;
use super::monitor::CancellationToken;
use crate::concurrency::Permit;
use crate::debug::debug_as;
use crate::error::AcquireError;
use crate::sync::lock;
use crate::wait::assert_may_block;

/// A request for a permit of a [`CondvarSemaphore`]; [`wait`](Self::wait) blocks until it is
/// granted. `S` derefs to the semaphore: it is a reference or an `Arc`.
#[must_use = "a request does nothing unless it waits"]
pub struct Acquire<S: Deref<Target = CondvarSemaphore>> {
    semaphore: S,
    /// Each of these can end the wait.
    tokens: Vec<CancellationToken>,
    timeout: Option<Duration>,
}

impl<S: Deref<Target = CondvarSemaphore>> Acquire<S> {
    #[inline]
    pub(super) fn new(semaphore: S) -> Self {
        Self {
            semaphore,
            tokens: Vec::new(),
            timeout: None,
        }
    }

    /// Stops waiting, with [`Cancelled`](crate::ErrorKind::Cancelled), when `token` is cancelled: a
    /// blocked thread is woken.
    ///
    /// A token that is already cancelled wins at once, even when a permit is free, and no permit is
    /// taken. If a permit and a cancellation coincide, exactly one is observed and no permit is
    /// lost. If there are several tokens, any of them ends the wait.
    ///
    /// Takes `&token` or the token itself. Requires the feature `tokio`, a default.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_util::sync::CancellationToken;
    /// use tollgate::{CondvarSemaphore, ErrorKind};
    ///
    /// let semaphore = CondvarSemaphore::new(1);
    /// let _held = semaphore.try_acquire()?;
    /// let token = CancellationToken::new();
    /// std::thread::scope(|scope| {
    ///     let blocked = scope.spawn(|| semaphore.acquire().cancel_on(&token).wait());
    ///     token.cancel();
    ///     let refused = blocked.join().unwrap().unwrap_err();
    ///     assert_eq!(refused.kind(), ErrorKind::Cancelled);
    /// });
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[cfg(feature = "tokio")]
    pub fn cancel_on<C>(mut self, token: C) -> Self
    where
        C: std::borrow::Borrow<CancellationToken>,
    {
        self.tokens.push(token.borrow().clone());
        self
    }

    /// Stops waiting, with [`TimedOut`](crate::ErrorKind::TimedOut), after `duration`.
    ///
    /// The timeout runs on the system clock, from the moment at which the request has to wait. A
    /// timeout of zero ends the wait as soon as it begins. If there are several timeouts, the
    /// shortest applies.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{CondvarSemaphore, ErrorKind};
    ///
    /// let semaphore = CondvarSemaphore::new(1);
    /// let _held = semaphore.try_acquire()?;
    /// let refused = semaphore.acquire().timeout(Duration::from_millis(2)).wait();
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn timeout(mut self, duration: Duration) -> Self {
        let shortest = self.timeout.map_or(duration, |other| other.min(duration));
        self.timeout = Some(shortest);
        self
    }

    /// Blocks the thread until a permit is granted.
    ///
    /// Do not call this in asynchronous code: it would block the executor.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::ErrorKind::Closed), when the semaphore is or gets closed;
    /// [`Cancelled`](crate::ErrorKind::Cancelled) and [`TimedOut`](crate::ErrorKind::TimedOut), if
    /// a token or a timeout was added. A cancelled token takes precedence over everything else, and
    /// a permit over the deadline.
    ///
    /// # Panics
    ///
    /// With debug assertions and the feature `tokio`, panics on a thread that drives a tokio
    /// runtime; see [`Waiting::wait`](crate::wait::Waiting::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::CondvarSemaphore::new(1);
    /// let permit = semaphore.acquire().wait()?;
    /// assert_eq!(semaphore.snapshot().available, 0);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn wait(self) -> Result<Permit<S>, AcquireError> {
        assert_may_block();
        if self.tokens.iter().any(CancellationToken::is_cancelled) {
            return Err(AcquireError::cancelled_before());
        }
        let monitor = &self.semaphore.monitor;
        let taken = lock(&monitor.state).take()?;
        if !taken {
            monitor.block(&self.tokens, self.timeout)?;
        }
        Ok(Permit::new(self.semaphore, 1))
    }
}

debug_as! {
    [S: Deref<Target = CondvarSemaphore>] Acquire<S>, self
    => Acquire { timeout: self.timeout, .. }
}
