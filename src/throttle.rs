//! The trait that adapters take.

use std::future::Future;
use std::sync::Arc;

use crate::concurrency::{Acquire, AcquireOwned, OwnedPermit, Permit, Semaphore};
use crate::error::AcquireError;

/// Something that lets callers in: what generic code and adapters ask for.
///
/// To use a throttle directly, call its own methods; this trait shares no name with them. It is
/// implemented for references and `Arc`s, which are cheap to clone: for a `semaphore` of one's own
/// that is `&semaphore`.
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
    /// they are refused, is told by the throttle; for a [`Semaphore`] that is what
    /// [`acquire`](Semaphore::acquire) does.
    fn enter(&self) -> Self::Enter;

    /// Takes back an entry that was not made use of, for example because the next throttle on the
    /// way refused. For a permit that is to drop it. Code that composes throttles calls it; whoever
    /// has done what it entered for drops the permit instead.
    fn undo(&self, permit: Self::Permit) {
        drop(permit);
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

impl<'a> Throttle for &'a Semaphore {
    type Permit = Permit<'a>;
    type Enter = Acquire<'a>;

    fn enter(&self) -> Acquire<'a> {
        self.acquire()
    }
}

impl<'a> TryThrottle for &'a Semaphore {
    fn try_enter(&self) -> Result<Permit<'a>, AcquireError> {
        self.try_acquire()
    }
}

impl Throttle for Arc<Semaphore> {
    type Permit = OwnedPermit;
    type Enter = AcquireOwned;

    fn enter(&self) -> AcquireOwned {
        Arc::clone(self).acquire_owned()
    }
}

impl TryThrottle for Arc<Semaphore> {
    fn try_enter(&self) -> Result<OwnedPermit, AcquireError> {
        Arc::clone(self).try_acquire_owned()
    }
}
