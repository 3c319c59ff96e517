//! The permit of a semaphore, which is returned on drop.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Semaphore;

/// A semaphore of this crate. It is public because permits name it, and sealed by its private
/// module.
pub trait PermitSource: fmt::Debug {
    /// Takes back permits that were held.
    fn give_back(&self, permits: usize);
}

/// One or more permits of a semaphore, returned on drop, also when the holder panics.
///
/// `S` derefs to a [`Semaphore`], a `ChannelSemaphore` or a
/// [`CondvarSemaphore`](crate::CondvarSemaphore): it is a reference, or an `Arc` for an owned
/// permit. A permit of the latter two always has a count of 1.
///
/// Leaking it, for example with [`mem::forget`](std::mem::forget), takes its permits out of
/// circulation without lowering the limit; [`forget`](Self::forget) lowers the limit as well.
#[must_use = "a permit limits nothing once it is dropped: bind it, as in `let _permit = ..`"]
#[doc(alias = "SemaphorePermit")]
#[doc(alias = "SemaphoreGuard")]
pub struct Permit<S: Deref<Target: PermitSource>> {
    semaphore: S,
    count: usize,
}

/// A [`Permit`] that shares its [`Semaphore`], so it can move into a task.
#[doc(alias = "OwnedSemaphorePermit")]
#[doc(alias = "SemaphoreGuardArc")]
pub type OwnedPermit = Permit<Arc<Semaphore>>;

impl<S: Deref<Target: PermitSource>> Permit<S> {
    #[inline]
    pub(super) fn new(semaphore: S, permits: u32) -> Self {
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
    /// let mut three = Arc::clone(&semaphore).try_acquire_many_owned(3)?;
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
    /// permit.merge(Arc::clone(&semaphore).try_acquire_many_owned(2)?);
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

    /// Discards its permits, and lowers the limit of the semaphore by their number, at most to 0.
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
        self.semaphore.forget(std::mem::take(&mut self.count));
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
