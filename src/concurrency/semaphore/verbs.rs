//! How a [`Semaphore`] is acquired: eight verbs over one ready path.

use std::sync::Arc;

use super::Semaphore;
use crate::concurrency::{Acquire, AcquireOwned, OwnedPermit, Permit};
use crate::error::AcquireError;
use crate::wait::Waiting;

/// Acquiring.
///
/// The verbs differ in how many permits they ask for (`_many`), in whether the permit borrows the
/// semaphore or shares it (`_owned`), and in whether they wait (`try_` does not). All else is
/// added to the [`Waiting`] that they return: a token, a timeout, blocking the thread.
///
/// A permit that borrows lives no longer than the semaphore. To move one into a task or a thread,
/// take an owned one, or have the semaphore in a `static`: its permits are `Permit<'static>`.
///
/// How many permits one call asks for is a `u32`; limits are `usize`.
///
/// To ask for 0 permits never waits, and fails only if the semaphore is closed.
impl Semaphore {
    /// Waits for a permit.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// - [`Closed`](crate::ErrorKind::Closed), when the semaphore is or gets closed;
    /// - [`QueueFull`](crate::ErrorKind::QueueFull), see [`max_waiters`](Self::max_waiters);
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), when more is asked for than the
    ///   limit: at once for a newcomer, and at the head of the line for one who was there when the
    ///   limit [shrank](Self::set_permits). While the limit is 0, a pause, nobody gets this error:
    ///   everyone waits.
    ///
    /// If several apply, `Closed` comes before `ExceedsCapacity`, and that before `QueueFull`.
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

    /// Waits for `n` permits, to be had all at once or not at all.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
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

    /// Waits for a permit that shares the semaphore instead of borrowing it, so that it can move
    /// into a task.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
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
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<AcquireOwned> {
        self.acquire_many_owned(1)
    }

    /// Waits for `n` permits that share the semaphore, to be had all at once or not at all.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
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

    /// Takes a permit now, or not at all.
    ///
    /// # Errors
    ///
    /// - [`NoPermits`](crate::ErrorKind::NoPermits), when it is not free, somebody is waiting, or
    ///   the limit is 0;
    /// - [`Closed`](crate::ErrorKind::Closed);
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), when more is asked for than the
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

    /// Takes `n` permits now, or none.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
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

    /// Takes a permit that shares the semaphore now, or not at all.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
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
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedPermit, AcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// Takes `n` permits that share the semaphore now, or none.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
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
