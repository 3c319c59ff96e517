//! Operations that only permits of a [`Semaphore`] have: splitting, merging and forgetting.

use std::ops::Deref;
use std::sync::Arc;

use super::Semaphore;
use crate::concurrency::{Acquire, Permit};
use crate::sync::lock;

/// A [`Permit`] that shares its [`Semaphore`], so it can move into a task.
#[doc(alias = "OwnedSemaphorePermit")]
#[doc(alias = "SemaphoreGuardArc")]
pub type OwnedPermit = Permit<Arc<Semaphore>>;

impl OwnedPermit {
    /// Returns whether its permits, if returned now, would be granted to this waiter, and there is no other
    /// waiter.
    pub(crate) fn is_for_only(&self, waiter: &Acquire<Arc<Semaphore>>) -> bool {
        let (Some(semaphore), Some(id)) = (&waiter.source, &waiter.id) else {
            return false;
        };
        let queues = lock(&semaphore.queues);
        let state = semaphore.state.load();
        let fits = waiter.permits as usize == self.count && state.free >= 0 && !state.closed;
        let is_alone = queues.permits.len() == 1 && queues.permits.cost(id).is_some();
        Arc::ptr_eq(semaphore, &self.semaphore) && fits && is_alone
    }
}

/// Splitting and merging the permits of a [`Semaphore`].
impl<S: Deref<Target = Semaphore>> Permit<S> {
    /// Splits off `permits` of its permits, to be held and dropped separately. Returns `None` and
    /// changes nothing if it holds fewer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let semaphore = Arc::new(tollgate::Semaphore::new(3));
    /// let mut three = Arc::clone(&semaphore).cost_owned(3).try_acquire()?;
    ///
    /// drop(three.split(2));
    /// assert_eq!(three.count(), 1);
    /// assert_eq!(semaphore.available_permits(), 2);
    /// assert!(three.split(2).is_none());
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use = "what was split off goes back when it is dropped"]
    pub fn split(&mut self, permits: usize) -> Option<Self>
    where
        S: Clone,
    {
        self.count = self.count.checked_sub(permits)?;
        Some(Self {
            semaphore: self.semaphore.clone(),
            count: permits,
        })
    }

    /// Adds the permits of `other` to its own.
    ///
    /// # Panics
    ///
    /// Panics if `other` belongs to another semaphore. The permits of `other` are then returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let semaphore = Arc::new(tollgate::Semaphore::new(3));
    /// let mut permit = Arc::clone(&semaphore).try_acquire_owned()?;
    /// permit.merge(Arc::clone(&semaphore).cost_owned(2).try_acquire()?);
    /// assert_eq!(permit.count(), 3);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            std::ptr::eq(&*self.semaphore, &*other.semaphore),
            "permits of two semaphores cannot be merged: {:?} and {:?}",
            *self.semaphore,
            *other.semaphore,
        );
        // Both count towards one limit, so the sum cannot exceed it.
        self.count += std::mem::take(&mut other.count);
    }

    /// Discards its permits, and lowers the limit of the semaphore by their number, at most to 0. A
    /// waiter that requests more than the new limit is refused, as by
    /// [`set_permits`](crate::Semaphore::set_permits).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let semaphore = Arc::new(tollgate::Semaphore::new(3));
    /// Arc::clone(&semaphore).try_acquire_owned()?.forget();
    /// assert_eq!(semaphore.permits(), 2);
    /// assert_eq!(semaphore.available_permits(), 2);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn forget(mut self) {
        let held = std::mem::take(&mut self.count);
        let queues = lock(&self.semaphore.queues);
        // After a shrink more permits may be held than the limit; the rest of them pays off the debt.
        let limit = self.semaphore.permits().saturating_sub(held);
        self.semaphore.set_limit(queues, limit, held);
    }
}
