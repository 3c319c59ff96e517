//! Acquiring a [`ChannelSemaphore`] with a token: shorthands for `cancel_on`.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Acquire, AcquireOwned, ChannelSemaphore};
use crate::wait::CancelOn;

/// Acquiring with a token that cancels the wait: shorthands. Needs the feature `tokio`, a default.
impl ChannelSemaphore {
    /// Waits for a permit, or until `token` is cancelled. Short for `acquire().cancel_on(token)`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// [`Cancelled`](crate::ErrorKind::Cancelled), and those of [`acquire`](Self::acquire). A token
    /// that is cancelled already wins at once, even when a permit is free.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_util::sync::CancellationToken;
    /// use tollgate::{ChannelSemaphore, ErrorKind};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = ChannelSemaphore::new(1);
    /// let token = CancellationToken::new();
    /// let permit = semaphore.acquire_cancellable(&token).await?;
    ///
    /// let waiting = semaphore.acquire_cancellable(&token);
    /// let (waited, ()) = tokio::join!(waiting, async { token.cancel() });
    /// assert_eq!(waited.unwrap_err().kind(), ErrorKind::Cancelled);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_cancellable<'a>(
        &'a self,
        token: &'a CancellationToken,
    ) -> CancelOn<Acquire<'a>, &'a CancellationToken> {
        self.acquire().cancel_on(token)
    }

    /// Waits for a permit that shares the semaphore, or until `token` is cancelled. Short for
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
    /// use tollgate::{ChannelSemaphore, ErrorKind};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let semaphore = Arc::new(ChannelSemaphore::new(1));
    /// let _held = semaphore.try_acquire()?;
    /// let token = CancellationToken::new();
    ///
    /// let waiting = Arc::clone(&semaphore).acquire_owned_cancellable(token.clone());
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
    ) -> CancelOn<AcquireOwned, CancellationToken> {
        self.acquire_owned().cancel_on(token)
    }
}
