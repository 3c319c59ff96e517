//! [`FairPermit`]: the permit of a class, which is counted until it is dropped.
//!
//! The count goes first and the inner permit second: when the throttle then wakes the queue, the
//! class that returned the permit already counts as holding one less, and so may be the one that
//! gets it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::in_class::Handle;
use super::virtual_time::Charge;
use super::{ClassKey, Queueable};
use crate::error::AcquireError;

/// A permit of a class of a [`FairQueue`](super::FairQueue). It derefs to the inner permit.
///
/// Dropping it lowers the count of its class, and then drops the inner permit.
///
/// # Examples
///
/// The permit of an adaptive limit also says how its call has ended. The class does that with
/// [`finish`](crate::throttle::Adaptive::finish), and the inner permit with its own methods:
///
/// ```
/// use std::sync::Arc;
/// use tollgate::adaptive::{AdaptiveSemaphore, Feedback};
/// use tollgate::fair::FairQueue;
/// use tollgate::throttle::Adaptive;
///
/// let backend = Arc::new(AdaptiveSemaphore::default());
/// let class = FairQueue::new(Arc::clone(&backend)).class("acme");
///
/// let permit = class.try_acquire()?;
/// class.finish(permit, Feedback::OVERLOADED);
///
/// let permit = class.try_acquire()?;
/// permit.into_inner().overloaded();
///
/// assert_eq!(backend.snapshot().window.overloaded(), 2);
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[must_use = "a permit limits nothing once it is dropped: bind it, as in `let _permit = ..`"]
pub struct FairPermit<T: Queueable, K: ClassKey> {
    // Dropped first.
    pub(super) hold: Hold<T, K>,
    pub(super) inner: T::Permit,
}

/// A permit that is counted by its class.
pub(super) struct Hold<T: Queueable, K: ClassKey> {
    handle: Arc<Handle<T, K>>,
    /// What the class was charged, by cost.
    charge: Option<Charge>,
}

impl<T: Queueable, K: ClassKey> Hold<T, K> {
    #[inline]
    pub(super) fn new(handle: Arc<Handle<T, K>>, charge: Option<Charge>) -> Self {
        Self { handle, charge }
    }

    /// Counts a permit without the lock; `Err` returns the handle if a waiter would have to go
    /// first, or the class holds its maximum.
    #[inline]
    pub(super) fn try_new(
        mut handle: Arc<Handle<T, K>>,
    ) -> Result<Result<Self, Arc<Handle<T, K>>>, AcquireError> {
        if handle.queue.is_contended() {
            return Ok(Err(handle));
        }
        if handle.entry.try_hold() {
            return Ok(Ok(Self::new(handle, None)));
        }
        if handle.entry.is_detached() {
            handle = handle.attached()?;
            if handle.entry.try_hold() {
                return Ok(Ok(Self::new(handle, None)));
            }
        }
        Ok(Err(handle))
    }

    #[inline]
    pub(super) fn throttle(&self) -> &T {
        &self.handle.queue.throttle
    }

    /// Counts the permit as returned, and returns the handle.
    pub(super) fn release(self) -> Arc<Handle<T, K>> {
        Arc::clone(&self.handle)
    }

    /// Charges the class another cost, if it was charged.
    pub(super) fn recharge(&self, cost: u64) {
        if let Some(charge) = self.charge.filter(|charge| charge.cost.get() != cost) {
            let mut locked = self.handle.queue.relock();
            locked.schedule.recharge(&self.handle.entry, charge, cost);
        }
    }
}

impl<T: Queueable, K: ClassKey> Drop for Hold<T, K> {
    #[inline]
    fn drop(&mut self) {
        if self.handle.entry.release() {
            self.handle.queue.released(&self.handle.entry);
        }
    }
}

impl<T: Queueable, K: ClassKey> FairPermit<T, K> {
    /// Returns the inner permit, for methods that take it by value. Its class counts it as returned
    /// now.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Pool;
    /// use tollgate::fair::FairQueue;
    ///
    /// let pool = Arc::new(Pool::with_factory(1, || "a connection"));
    /// let queue = FairQueue::new(Arc::clone(&pool));
    /// let connection = queue.class("reports").try_acquire()?;
    /// connection.into_inner().discard();
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn into_inner(self) -> T::Permit {
        self.inner
    }
}

impl<T: Queueable, K: ClassKey> Deref for FairPermit<T, K> {
    type Target = T::Permit;

    #[inline]
    fn deref(&self) -> &T::Permit {
        &self.inner
    }
}

impl<T: Queueable, K: ClassKey> DerefMut for FairPermit<T, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T::Permit {
        &mut self.inner
    }
}

impl<T: Queueable<Permit: fmt::Debug>, K: ClassKey> fmt::Debug for FairPermit<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FairPermit").field(&self.inner).finish()
    }
}
