//! Acquiring with a token, the same for every type: shorthands for `cancel_on`.

/// Gives `acquire_cancellable` and `acquire_owned_cancellable` to a type. For the documentation:
/// `what` one waits for, the `name` to be imported, and an expression that makes a `new` one, which
/// lets in one and no more.
macro_rules! cancellable {
    (
        [$($generics:tt)*] $type:ty $(where [$($bounds:tt)*])?,
        what: $what:literal, name: $name:literal, new: $new:literal,
        $acquire:ty, $acquire_owned:ty
    ) => {
        /// Acquiring with a token that cancels the wait: shorthands. Needs the feature `tokio`, a
        /// default.
        impl<$($generics)*> $type {
            #[doc = concat!("Waits for ", $what, ", or until `token` is cancelled.")]
            ///
            /// Short for `acquire().cancel_on(token)`.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
            ///
            /// # Errors
            ///
            /// [`Cancelled`](crate::ErrorKind::Cancelled), and those of [`acquire`](Self::acquire). A
            /// token that is cancelled already wins at once, even when there is nothing to wait for.
            ///
            /// # Examples
            ///
            /// ```
            /// use tokio_util::sync::CancellationToken;
            #[doc = concat!("use tollgate::{ErrorKind, ", $name, "};")]
            ///
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), tollgate::AcquireError> {
            #[doc = concat!("let throttle = ", $new, ";")]
            /// let token = CancellationToken::new();
            /// let held = throttle.acquire_cancellable(&token).await?;
            ///
            /// let waiting = throttle.acquire_cancellable(&token);
            /// let (waited, ()) = tokio::join!(waiting, async { token.cancel() });
            /// assert_eq!(waited.unwrap_err().kind(), ErrorKind::Cancelled);
            /// # Ok(())
            /// # }
            /// ```
            #[inline]
            pub fn acquire_cancellable<'a>(
                &'a self,
                token: &'a tokio_util::sync::CancellationToken,
            ) -> crate::wait::CancelOn<$acquire, &'a tokio_util::sync::CancellationToken> {
                self.acquire().cancel_on(token)
            }

            #[doc = concat!("Waits for ", $what, ", or until `token` is cancelled, in a task of its own.")]
            ///
            /// Short for `acquire_owned().cancel_on(token)`.
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
            #[doc = concat!("use tollgate::{ErrorKind, ", $name, "};")]
            ///
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
            #[doc = concat!("let throttle = Arc::new(", $new, ");")]
            /// let held = throttle.try_acquire()?;
            /// let token = CancellationToken::new();
            ///
            /// let waiting = Arc::clone(&throttle).acquire_owned_cancellable(token.clone());
            /// let task = tokio::spawn(waiting);
            /// token.cancel();
            /// assert_eq!(task.await?.unwrap_err().kind(), ErrorKind::Cancelled);
            /// # Ok(())
            /// # }
            /// ```
            #[inline]
            pub fn acquire_owned_cancellable(
                self: std::sync::Arc<Self>,
                token: tokio_util::sync::CancellationToken,
            ) -> crate::wait::CancelOn<$acquire_owned, tokio_util::sync::CancellationToken>
            $(where $($bounds)*)?
            {
                self.acquire_owned().cancel_on(token)
            }
        }
    };
}
pub(crate) use cancellable;
