//! What can be added to every future that waits: a token that cancels it, a timeout, and waiting
//! by blocking the thread.
//!
//! The same three methods are inherent to every such future, and to the results of the first two,
//! so that they stack in any order and nobody imports a trait to wait. [`combinators`] gives them
//! to a type.

use std::future::Future;
use std::pin::Pin;

use crate::error::AcquireError;

mod asked;
mod block;
#[cfg(any(feature = "channel", feature = "tokio"))]
mod boxed_when_waiting;
#[cfg(feature = "tokio")]
mod cancel_on;
#[cfg(feature = "tokio")]
mod cancellable;
mod outcome;
mod timeout;

pub use self::asked::budget;
pub(crate) use self::asked::{tell_clock, without_budget};
pub(crate) use self::block::{block_on, is_blocking};
#[cfg(any(feature = "channel", feature = "tokio"))]
pub(crate) use self::boxed_when_waiting::BoxedWhenWaiting;
#[cfg(feature = "tokio")]
pub use self::cancel_on::CancelOn;
#[cfg(feature = "tokio")]
pub(crate) use self::cancellable::cancellable;
pub use self::outcome::Outcome;
pub use self::timeout::Timeout;

/// A wait of a type that is not known.
pub(crate) type BoxFuture<'a, P> =
    Pin<Box<dyn Future<Output = Result<P, AcquireError>> + Send + 'a>>;

/// Gives `cancel_on`, `timeout` and `wait` to a future.
macro_rules! combinators {
    ([$($generics:tt)*] $future:ty $(where $($bounds:tt)*)?) => {
        impl<$($generics)*> $future $(where $($bounds)*)? {
            /// Gives up, with [`Cancelled`](crate::ErrorKind::Cancelled), when `token` is
            /// cancelled: the future is dropped then.
            ///
            /// A token that is cancelled already wins at once, even when there is nothing to wait
            /// for, and nothing is taken. When there is nothing to wait for, the token is only
            /// looked at; one registers with it only to wait. If a permit and a cancellation come
            /// at once, exactly one is observed, and a permit that is not goes to the next.
            ///
            /// Takes `&token`, or the token itself where the future must be `'static`. A token
            /// needs no runtime. Needs the feature `tokio`, a default.
            ///
            /// # Examples
            ///
            /// ```
            /// use tokio_util::sync::CancellationToken;
            /// use tollgate::{ErrorKind, Semaphore};
            ///
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() {
            /// let semaphore = Semaphore::new(1);
            /// let token = CancellationToken::new();
            /// token.cancel();
            /// let refused = semaphore.acquire().cancel_on(&token).await;
            /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::Cancelled);
            /// # }
            /// ```
            ///
            /// # Cancel safety
            ///
            /// That of the future it is added to, which also says what is lost, if anything, when
            /// the token is cancelled.
            #[cfg(feature = "tokio")]
            #[inline]
            pub fn cancel_on<C>(self, token: C) -> crate::wait::CancelOn<Self, C>
            where
                C: std::borrow::Borrow<tokio_util::sync::CancellationToken>,
            {
                crate::wait::CancelOn::new(self, token)
            }

            /// Gives up, with [`TimedOut`](crate::ErrorKind::TimedOut), after `duration`: the
            /// future is dropped then.
            ///
            /// The time runs from the first poll that has to wait; when there is nothing to wait
            /// for, no clock is read. With a duration of zero it is over as soon as it would have
            /// to wait.
            ///
            /// To wait for a rate limiter or a gate, it is the time of its [clock](crate::Clock);
            /// and if that knows that the wait will not fit, it is refused at once, and takes no
            /// place in line. For other throttles it is tokio's time inside a tokio
            /// runtime, rounded up to milliseconds, so that paused tests just work; elsewhere, and
            /// under [`wait`](Self::wait), it is the system's, on a timer thread that serves the
            /// whole process.
            ///
            /// # Examples
            ///
            /// ```
            /// use std::time::Duration;
            /// use tollgate::{ErrorKind, Semaphore};
            ///
            /// let semaphore = Semaphore::new(0);
            /// let refused = semaphore.acquire().timeout(Duration::from_millis(2)).wait();
            /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
            /// ```
            ///
            /// # Cancel safety
            ///
            /// That of the future it is added to, which also says what is lost, if anything, when
            /// the time is over.
            ///
            /// # Panics
            ///
            /// When it has to wait inside a tokio runtime that was built without its timer, or
            /// elsewhere when the system cannot start the timer thread.
            #[inline]
            pub fn timeout(self, duration: std::time::Duration) -> crate::wait::Timeout<Self> {
                crate::wait::Timeout::new(self, duration)
            }

            /// Blocks the thread until the future is ready. The thread is parked meanwhile.
            ///
            /// Not for use inside asynchronous code: it would block the executor. What waits on a
            /// [manual clock](crate::ManualClock) waits for another thread to advance it.
            ///
            /// # Examples
            ///
            /// ```
            /// let semaphore = tollgate::Semaphore::new(1);
            /// std::thread::scope(|scope| {
            ///     for _ in 0..4 {
            ///         scope.spawn(|| {
            ///             let _permit = semaphore.acquire().wait().unwrap();
            ///             // One thread at a time is here.
            ///         });
            ///     }
            /// });
            /// assert_eq!(semaphore.available_permits(), 1);
            /// ```
            #[inline]
            pub fn wait(self) -> <Self as std::future::Future>::Output {
                crate::wait::block_on(self)
            }
        }
    };
}
pub(crate) use combinators;
