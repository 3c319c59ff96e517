//! A request for a permit, with what may end the wait for it.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::CondvarSemaphore;
use super::tokens::Tokens;
use crate::concurrency::Permit;
use crate::error::{AcquireError, ErrorKind};

/// A request for a permit of a [`CondvarSemaphore`]: [`wait`](Self::wait) blocks for it. `S` leads to
/// the semaphore, by reference or by `Arc`.
#[must_use = "a request does nothing unless it waits"]
pub struct Acquire<S: Deref<Target = CondvarSemaphore>> {
    semaphore: S,
    tokens: Tokens,
    timeout: Option<Duration>,
}

impl<S: Deref<Target = CondvarSemaphore>> Acquire<S> {
    #[inline]
    pub(super) fn new(semaphore: S) -> Self {
        Self {
            semaphore,
            tokens: Tokens::new(),
            timeout: None,
        }
    }

    /// Stops waiting, with [`Cancelled`](crate::ErrorKind::Cancelled), when `token` is
    /// cancelled: a thread that is blocked is woken.
    ///
    /// A token that is cancelled already wins at once, even when a permit is free, and
    /// nothing is taken. If a permit and a cancellation come together, exactly one is
    /// observed and nothing is lost. Of several tokens, any one ends the wait.
    ///
    /// Takes `&token` or the token itself. Needs the feature `tokio`, a default.
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
        C: std::borrow::Borrow<tokio_util::sync::CancellationToken>,
    {
        self.tokens.add(token.borrow().clone());
        self
    }

    /// Stops waiting, with [`TimedOut`](crate::ErrorKind::TimedOut), after `duration`.
    ///
    /// The time is the system's, and runs from the moment at which it has to wait. With a
    /// duration of zero it is over as soon as it would have to wait. Of several, the
    /// shortest counts.
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

    /// Blocks the thread until there is a permit.
    ///
    /// Not for use inside asynchronous code: it would block the executor.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::ErrorKind::Closed), when the semaphore is or gets closed, and
    /// what has been added: [`Cancelled`](crate::ErrorKind::Cancelled),
    /// [`TimedOut`](crate::ErrorKind::TimedOut). A cancelled token comes before all else,
    /// and a permit before the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::CondvarSemaphore::new(1);
    /// let permit = semaphore.acquire().wait()?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn wait(self) -> Result<Permit<S>, AcquireError> {
        if self.tokens.is_cancelled() {
            return Err(AcquireError::new(ErrorKind::Cancelled));
        }
        let monitor = &self.semaphore.monitor;
        let taken = monitor.lock().take();
        taken.unwrap_or_else(|| monitor.block(&self.tokens, self.timeout))?;
        Ok(Permit::new(self.semaphore, 1))
    }
}

impl<S: Deref<Target = CondvarSemaphore>> fmt::Debug for Acquire<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
