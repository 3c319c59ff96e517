//! The eight acquire methods of a [`Semaphore`], over one fast path, and the future of those that
//! wait.

use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{OwnedPermit, Semaphore};
use crate::concurrency::{Acquire, Permit};
use crate::error::AcquireError;
use crate::wait::Waiting;

/// An [`Acquire`] that shares the semaphore, so it can move into a task.
#[doc(alias = "AcquireArc")]
pub type AcquireOwned = Acquire<Arc<Semaphore>>;

/// Acquiring.
///
/// The methods differ in how many permits they request (`_many`), in whether the permit borrows the
/// semaphore or shares it (`_owned`), and in whether they wait (`try_` does not). The [`Waiting`]
/// that they return has methods to add a token or a timeout, or to block the thread.
///
/// A permit that borrows the semaphore cannot outlive it. To move a permit into a task or a thread,
/// take an owned one, or put the semaphore in a `static`: its permits are `Permit<&'static Semaphore>`.
///
/// The number of permits in one request is a `u32`; limits are `usize`.
///
/// Requesting zero permits completes immediately unless the semaphore is closed.
impl Semaphore {
    /// Waits for a permit.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// - [`Closed`](crate::ErrorKind::Closed), when the semaphore is or gets closed;
    /// - [`QueueFull`](crate::ErrorKind::QueueFull), see [`max_waiters`](Self::max_waiters);
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), when the request exceeds the
    ///   limit: at once for a newcomer, and at the head of the queue for a waiter that was there
    ///   when the limit [shrank](Self::set_permits). While the limit is 0, a pause, no caller gets
    ///   this error: all callers wait.
    ///
    /// If several apply, `Closed` takes precedence over `ExceedsCapacity`, and that over
    /// `QueueFull`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = tollgate::Semaphore::new(1);
    /// let permit = semaphore.acquire().await?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// drop(permit);
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire(&self) -> Waiting<Acquire<&Self>> {
        self.acquire_many(1)
    }

    /// Waits for `n` permits, all at once or not at all.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = tollgate::Semaphore::new(8);
    /// let permit = semaphore.acquire_many(3).await?;
    /// assert_eq!(permit.count(), 3);
    /// assert_eq!(semaphore.available_permits(), 5);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_many(&self, n: u32) -> Waiting<Acquire<&Self>> {
        Waiting::new(Acquire::new(self, n))
    }

    /// Waits for a permit that shares the semaphore instead of borrowing it, so it can move into a
    /// task.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let semaphore = Arc::new(tollgate::Semaphore::new(1));
    /// let permit = Arc::clone(&semaphore).acquire_owned().await?;
    /// tokio::spawn(async move {
    ///     // Work.
    ///     drop(permit);
    /// })
    /// .await?;
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[doc(alias = "acquire_arc")]
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<AcquireOwned> {
        self.acquire_many_owned(1)
    }

    /// Waits for `n` permits that share the semaphore, all at once or not at all.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = Arc::new(tollgate::Semaphore::new(8));
    /// let permit = Arc::clone(&semaphore).acquire_many_owned(2).await?;
    /// assert_eq!(permit.count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_many_owned(self: Arc<Self>, n: u32) -> Waiting<AcquireOwned> {
        Waiting::new(Acquire::new(self, n))
    }

    /// Takes a permit without waiting.
    ///
    /// # Errors
    ///
    /// - [`NoPermits`](crate::ErrorKind::NoPermits), when it is not free, there are waiters, or the
    ///   limit is 0;
    /// - [`Closed`](crate::ErrorKind::Closed);
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), when the request exceeds the
    ///   limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{ErrorKind, Semaphore};
    ///
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.try_acquire().unwrap_err().kind(), ErrorKind::NoPermits);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<&Self>, AcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes `n` permits without waiting, or none.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(8);
    /// let permit = semaphore.try_acquire_many(8)?;
    /// assert_eq!(permit.count(), 8);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire_many(&self, n: u32) -> Result<Permit<&Self>, AcquireError> {
        self.try_take(n)?;
        Ok(Permit::new(self, n))
    }

    /// Takes a permit that shares the semaphore, without waiting.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// let semaphore = Arc::new(tollgate::Semaphore::new(1));
    /// let permit = Arc::clone(&semaphore).try_acquire_owned()?;
    /// std::thread::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    #[doc(alias = "try_acquire_arc")]
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedPermit, AcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// Takes `n` permits that share the semaphore without waiting, or none.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// let semaphore = Arc::new(tollgate::Semaphore::new(8));
    /// let permit = Arc::clone(&semaphore).try_acquire_many_owned(8)?;
    /// assert_eq!(permit.count(), 8);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire_many_owned(self: Arc<Self>, n: u32) -> Result<OwnedPermit, AcquireError> {
        self.try_take(n)?;
        Ok(Permit::new(self, n))
    }
}

impl<S: Deref<Target = Semaphore>> Future for Acquire<S> {
    type Output = Result<Permit<S>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let permits = self.permits;
        let polled = self.poll_take(context);
        polled.map_ok(|(semaphore, ())| Permit::new(semaphore, permits))
    }
}
