//! Acquiring from a [`Pool`] with a token: shorthands for `cancel_on`.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Acquire, AcquireOwned, Pool};
use crate::wait::CancelOn;

/// Acquiring with a token that cancels the wait: shorthands. Needs the feature `tokio`, a default.
impl<T> Pool<T> {
    /// Waits for an item, or until `token` is cancelled. Short for `acquire().cancel_on(token)`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// [`Cancelled`](crate::ErrorKind::Cancelled), and those of [`acquire`](Self::acquire). A token
    /// that is cancelled already wins at once, even when an item is idle.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_util::sync::CancellationToken;
    /// use tollgate::{ErrorKind, Pool};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let pool = Pool::new(["the only one"]);
    /// let token = CancellationToken::new();
    /// let item = pool.acquire_cancellable(&token).await?;
    ///
    /// let waiting = pool.acquire_cancellable(&token);
    /// let (waited, ()) = tokio::join!(waiting, async { token.cancel() });
    /// assert_eq!(waited.unwrap_err().kind(), ErrorKind::Cancelled);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_cancellable<'a>(
        &'a self,
        token: &'a CancellationToken,
    ) -> CancelOn<Acquire<'a, T>, &'a CancellationToken> {
        self.acquire().cancel_on(token)
    }

    /// Waits for an item, whose permit shares the pool, or until `token` is cancelled. Short for
    /// `acquire_owned().cancel_on(token)`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// As [`acquire_cancellable`](Self::acquire_cancellable).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tokio_util::sync::CancellationToken;
    /// use tollgate::{ErrorKind, Pool};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = Arc::new(Pool::new(["the only one"]));
    /// let _held = pool.try_acquire()?;
    /// let token = CancellationToken::new();
    ///
    /// let waiting = Arc::clone(&pool).acquire_owned_cancellable(token.clone());
    /// let task = tokio::spawn(waiting);
    /// token.cancel();
    /// assert_eq!(task.await?.unwrap_err().kind(), ErrorKind::Cancelled);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_owned_cancellable(
        self: Arc<Self>,
        token: CancellationToken,
    ) -> CancelOn<AcquireOwned<T>, CancellationToken>
    where
        T: Send + 'static,
    {
        self.acquire_owned().cancel_on(token)
    }
}
