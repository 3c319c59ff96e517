//! The trait that adapters take, and what is made of throttles: [`all`] of several at once, one with
//! a [cost](Cost), one that may be missing, one of a type that is [not known](BoxThrottle).
//!
//! Only the waits are not in the crate's root as well: one seldom has to name them.

mod all;
#[cfg(feature = "async-lock")]
mod async_lock;
mod boxed;
mod chain;
mod cost;
mod implementations;
mod optional;
#[cfg(feature = "tokio")]
mod tokio;

use std::future::Future;

pub use self::all::{All, EnterAll, Parts, all};
#[cfg(feature = "async-lock")]
pub use self::async_lock::{EnterAsyncLock, EnterAsyncLockOwned};
pub use self::boxed::{BoxEnter, BoxPermit, BoxThrottle};
pub use self::cost::Cost;
pub use self::optional::EnterOption;
#[cfg(feature = "tokio")]
pub use self::tokio::{EnterTokio, EnterTokioOwned};
use crate::error::AcquireError;

/// Something that lets callers in: what generic code and adapters ask for.
///
/// To use a throttle directly, call its own methods; this trait shares no name with them. It is
/// implemented for references and `Arc`s, which are cheap to clone: for a `semaphore` of one's own
/// that is `&semaphore`.
///
/// It is also implemented for what is made of throttles: [`all`]`((..))`, [`Cost`],
/// [`BoxThrottle`], and `Option`, of which `None` lets everybody in; and, so that one can keep the
/// semaphore that one has, for `tokio::sync::Semaphore` and, with the feature `async-lock`, for
/// `async_lock::Semaphore`.
///
/// A wait of a throttle that is not known has no `cancel_on` and no `timeout` of its own.
/// `CancelOn::new` and [`Timeout::new`](crate::Timeout::new) add them. To spawn a task that waits,
/// ask for `T: Throttle<Enter: Send, Permit: Send> + Send + 'static`.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{AcquireError, Semaphore, Throttle};
///
/// /// Runs a job when the throttle lets it.
/// async fn throttled<T: Throttle, R>(
///     throttle: &T,
///     job: impl Future<Output = R>,
/// ) -> Result<R, AcquireError> {
///     let _permit = throttle.enter().await?;
///     Ok(job.await)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), AcquireError> {
/// let semaphore = Arc::new(Semaphore::new(1));
/// assert_eq!(throttled(&semaphore, async { 7 }).await?, 7);
/// assert_eq!(throttled(&&*semaphore, async { 7 }).await?, 7);
/// # Ok(())
/// # }
/// ```
pub trait Throttle: Clone {
    /// What the caller has when it was let in.
    type Permit;

    /// The wait.
    ///
    /// Cancel-safe: dropping it takes the caller out of the line and loses nothing.
    type Enter: Future<Output = Result<Self::Permit, AcquireError>>;

    /// Waits until the caller may go on. In which order callers are let in, and with which errors
    /// they are refused, is told by the throttle; for a semaphore that is what
    /// [`acquire`](crate::Semaphore::acquire) does.
    fn enter(&self) -> Self::Enter;

    /// Takes back an entry that was not made use of, for example because the next throttle on the
    /// way refused. For a permit that is to drop it. Code that composes throttles calls it; whoever
    /// has done what it entered for drops the permit instead.
    fn undo(&self, permit: Self::Permit) {
        drop(permit);
    }

    /// The same throttle as a type without parameters, for example for a field of a struct.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{BoxThrottle, Semaphore, Throttle};
    ///
    /// /// Does not mind what it is throttled by.
    /// struct Client {
    ///     throttle: BoxThrottle,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let client = Client { throttle: Arc::clone(&semaphore).boxed() };
    /// let permit = client.throttle.acquire().await?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # Ok(())
    /// # }
    /// ```
    fn boxed(self) -> BoxThrottle
    where
        Self: Throttle<Permit: Send, Enter: Send> + Send + Sync + Sized + 'static,
    {
        BoxThrottle::new(self)
    }
}

/// A throttle that can say at once whether it lets a caller in.
pub trait TryThrottle: Throttle {
    /// Enters now, or not at all.
    ///
    /// # Errors
    ///
    /// As the `try_acquire` of the throttle.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Semaphore, TryThrottle};
    ///
    /// fn enter_now<T: TryThrottle>(throttle: T) -> Option<T::Permit> {
    ///     throttle.try_enter().ok()
    /// }
    ///
    /// let semaphore = Semaphore::new(1);
    /// let permit = enter_now(&semaphore);
    /// assert!(permit.is_some());
    /// assert!(enter_now(&semaphore).is_none());
    /// ```
    fn try_enter(&self) -> Result<Self::Permit, AcquireError>;
}
