//! The permit of a semaphore, which is returned on drop.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A semaphore of this crate. It is public because permits name it, and sealed by its private
/// module.
pub trait PermitSource: fmt::Debug {
    /// Takes back permits that were held.
    fn give_back(&self, permits: usize);
}

/// One or more permits of a semaphore, returned on drop, also when the holder panics.
///
/// `S` derefs to a [`Semaphore`](crate::Semaphore), a `ChannelSemaphore` or a
/// [`CondvarSemaphore`](crate::CondvarSemaphore): it is a reference, or an `Arc` for an owned
/// permit. A permit of the latter two always has a count of 1.
///
/// Leaking it, for example with [`mem::forget`](std::mem::forget), takes its permits out of
/// circulation without lowering the limit; [`forget`](Self::forget) lowers the limit as well.
#[must_use = "a permit limits nothing once it is dropped: bind it, as in `let _permit = ..`"]
#[doc(alias = "SemaphorePermit")]
#[doc(alias = "SemaphoreGuard")]
pub struct Permit<S: Deref<Target: PermitSource>> {
    pub(super) semaphore: S,
    pub(super) count: usize,
}

impl<S: Deref<Target: PermitSource>> Permit<S> {
    #[inline]
    pub(crate) fn new(semaphore: S, permits: u32) -> Self {
        Self {
            semaphore,
            count: permits as usize,
        }
    }

    /// Returns the number of permits that it holds.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(3);
    /// assert_eq!(semaphore.try_acquire_many(2)?.count(), 2);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    #[doc(alias = "num_permits")]
    pub fn count(&self) -> usize {
        self.count
    }
}

impl<'a, T: PermitSource> Permit<&'a T> {
    /// Returns the semaphore that it belongs to.
    pub fn semaphore(&self) -> &'a T {
        self.semaphore
    }
}

impl<T: PermitSource> Permit<Arc<T>> {
    /// Returns the semaphore that it belongs to.
    pub fn semaphore(&self) -> &Arc<T> {
        &self.semaphore
    }
}

impl<S: Deref<Target: PermitSource>> Drop for Permit<S> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.give_back(self.count);
    }
}

impl<S: Deref<Target: PermitSource>> fmt::Debug for Permit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("count", &self.count)
            .field("semaphore", &&*self.semaphore)
            .finish()
    }
}
