//! The trait that adapters take, and what is made of throttles: [`all`] of several at once, one with
//! a [cost](Cost), one that may be missing, one of a type that is [not known](BoxThrottle).
//!
//! Only the waits are not in the crate's root as well: one seldom has to name them.

mod all;
mod boxed;
mod chain;
mod cost;
#[cfg(any(feature = "tokio", feature = "async-lock"))]
mod foreign;
mod implementations;
mod keyed;
mod optional;
mod references;

use std::future::Future;

pub use self::all::{All, EnterAll, Parts, all};
pub use self::boxed::BoxThrottle;
pub use self::cost::Cost;
#[cfg(any(feature = "tokio", feature = "async-lock"))]
pub use self::foreign::EnterForeign;
pub use self::optional::EnterOption;
use crate::error::AcquireError;
use crate::wait::Waiting;

/// Something that lets callers in: what generic code and adapters ask for.
///
/// To use a throttle directly, call its own methods; this trait shares no name with them. It is
/// implemented for references and `Arc`s, which are cheap to clone: a `Semaphore` itself is none, but
/// `&semaphore`, `Arc<Semaphore>` and `&arc` are. The same holds for `Pool`, `ChannelSemaphore`,
/// `tokio::sync::Semaphore` and, with the feature `async-lock`, `async_lock::Semaphore`: one can keep
/// the semaphore that one has. It is also implemented for what is made of throttles:
/// [`all`]`((..))`, [`Cost`], [`BoxThrottle`], and `Option`, of which `None` lets everybody in.
///
/// To spawn a task that waits, ask for `T: Throttle<Enter: Send, Permit: Send> + Send + 'static`.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{AcquireError, Semaphore, Throttle};
///
/// /// Runs a job when the throttle lets it.
/// async fn throttled<T: Throttle, R>(
///     throttle: T,
///     job: impl Future<Output = R>,
/// ) -> Result<R, AcquireError> {
///     let _permit = throttle.enter().await?;
///     Ok(job.await)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), AcquireError> {
/// let semaphore = Semaphore::new(1);
/// assert_eq!(throttled(&semaphore, async { 7 }).await?, 7);
///
/// let shared = Arc::new(Semaphore::new(1));
/// assert_eq!(throttled(&shared, async { 7 }).await?, 7);
/// # Ok(())
/// # }
/// ```
///
/// The semaphore of tokio that one has, with a token:
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```text")]
/// use tokio_util::sync::CancellationToken;
/// use tollgate::{ErrorKind, Throttle};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let old = tokio::sync::Semaphore::new(1);
/// let token = CancellationToken::new();
/// let permit = (&old).enter().cancel_on(&token).await?;
///
/// token.cancel();
/// let refused = (&old).enter().cancel_on(&token).await;
/// assert_eq!(refused.unwrap_err().kind(), ErrorKind::Cancelled);
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a throttle",
    note = "throttles are taken by reference or in an `Arc`, for example `&limiter` or \
            `Arc::clone(&semaphore)`; where `'static` is asked for, as in tasks and services, in an `Arc`"
)]
pub trait Throttle: Clone {
    /// What the caller has when it was let in.
    type Permit;

    /// The wait.
    ///
    /// Cancel-safe: dropping it takes the caller out of the line and loses nothing.
    type Enter: Future<Output = Result<Self::Permit, AcquireError>>;

    /// Waits until the caller may go on, with all that can be [added](Waiting) to a wait. In which order callers are let in, and with which errors
    /// they are refused, is told by the throttle; for a semaphore that is what
    /// [`acquire`](crate::Semaphore::acquire) does.
    fn enter(&self) -> Waiting<Self::Enter>;

    /// Takes back a permit that was not made use of, for example because the next throttle on the
    /// way refused: the charge of a rate limiter is refunded. By default the permit is dropped. Code
    /// that composes throttles calls it, and a throttle that wraps another one must forward it;
    /// after the work that the permit was for, drop the permit instead.
    fn rollback(&self, permit: Self::Permit) {
        drop(permit);
    }

    /// The same throttle, with its type erased, for example for a field of a struct. Take an `Arc`
    /// or something in a `static`: it must be `'static`.
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
    /// impl Client {
    ///     fn new<T>(throttle: T) -> Self
    ///     where
    ///         T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
    ///     {
    ///         Client { throttle: throttle.boxed() }
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let client = Client::new(Arc::clone(&semaphore));
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be tried",
    note = "it can be waited for with `.acquire()` or `.enter()`; a throttle of your own can be tried \
            if it implements `TryThrottle`"
)]
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
