//! A throttle whose type is erased.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::Throttle;
use crate::wait::BoxFuture;
use crate::wait::Waiting;

/// A throttle of any type, erased; created by [`Throttle::boxed`].
///
/// Its permit is erased as well, so the item of a pool, for example, cannot be used through it. Calls
/// can wait for the throttle, but cannot try it. Each entry costs two allocations, for its wait and
/// for its permit. Clones share the throttle.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{BoxThrottle, Semaphore, Throttle, all};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let (slots, memory) = (Arc::new(Semaphore::new(8)), Arc::new(Semaphore::new(1024)));
/// let one: BoxThrottle = Arc::clone(&slots).boxed();
/// let both: BoxThrottle = all((Arc::clone(&slots), Arc::clone(&memory).cost_owned(64))).boxed();
///
/// let permits = (one.acquire().await?, both.acquire().await?);
/// assert_eq!((slots.available_permits(), memory.available_permits()), (6, 960));
/// drop(permits);
/// assert_eq!((slots.available_permits(), memory.available_permits()), (8, 1024));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct BoxThrottle(Arc<dyn Erased>);

/// The permit of a [`BoxThrottle`]; dropping it returns the permit that is inside.
#[derive(Debug)]
#[must_use = "a permit limits nothing once it is dropped: bind it, as in `let _permit = ..`"]
pub struct BoxPermit(Box<dyn Any + Send>);

trait Erased: Send + Sync {
    fn enter(&self) -> BoxFuture<'static, BoxPermit>;
    fn rollback(&self, permit: Box<dyn Any + Send>);
    fn spend_burst(&self);
}

impl<T> Erased for T
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    fn enter(&self) -> BoxFuture<'static, BoxPermit> {
        let enter = Throttle::enter(self).into_inner();
        Box::pin(async move { Ok(BoxPermit(Box::new(enter.await?))) })
    }

    fn rollback(&self, permit: Box<dyn Any + Send>) {
        // A permit of another throttle's type can only be dropped.
        if let Ok(permit) = permit.downcast::<T::Permit>() {
            Throttle::rollback(self, *permit);
        }
    }

    fn spend_burst(&self) {
        Throttle::spend_burst(self);
    }
}

impl BoxThrottle {
    pub(super) fn new<T>(throttle: T) -> Self
    where
        T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
    {
        Self(Arc::new(throttle))
    }

    /// Waits until the throttle admits the caller.
    ///
    /// # Cancel safety
    ///
    /// The cancel safety of the inner throttle.
    ///
    /// # Errors
    ///
    /// The errors of the inner throttle.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Semaphore, Throttle};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let throttle = Arc::new(Semaphore::new(1)).boxed();
    /// let permit = throttle.acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Waiting<BoxFuture<'static, BoxPermit>> {
        Waiting::new(self.0.enter())
    }
}

impl Throttle for BoxThrottle {
    type Permit = BoxPermit;
    type Enter = BoxFuture<'static, Self::Permit>;

    fn enter(&self) -> Waiting<Self::Enter> {
        self.acquire()
    }

    fn rollback(&self, permit: BoxPermit) {
        self.0.rollback(permit.0);
    }

    fn spend_burst(&self) {
        self.0.spend_burst();
    }
}

impl fmt::Debug for BoxThrottle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxThrottle").finish_non_exhaustive()
    }
}
