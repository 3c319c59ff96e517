//! The permit of a semaphore, which is returned on drop.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::ReleaseAfter;

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
/// permit, or for a `Semaphore` [any pointer](Self::try_new). A permit of the latter two always has a count of 1.
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
    pub(crate) fn new(semaphore: S, permits: u64) -> Self {
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

impl<S: Deref<Target: PermitSource> + Send + 'static> Permit<S> {
    /// Returns its permits only when `duration` has passed since the returned guard was dropped. This is
    /// available for permits that can move into a task: those that share their semaphore, and those of a
    /// semaphore in a `static`.
    ///
    /// # Examples
    ///
    /// This example allows one request to a host at a time, with two seconds between the end of one and the
    /// start of the next, and 64 requests in total:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Keyed, Semaphore, all};
    ///
    /// static TOTAL: Semaphore = Semaphore::new(64);
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let hosts = Keyed::<String, _>::semaphores(1);
    ///
    /// let (host, slot) = all((hosts.key("example.org"), &TOTAL)).acquire().await?;
    /// // Only the host has to rest.
    /// let host = host.release_after(Duration::from_secs(2));
    /// // The request.
    /// drop((slot, host));
    /// assert_eq!(TOTAL.available_permits(), 64);
    /// assert_eq!(hosts.key("example.org").snapshot().in_use, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn release_after(self, duration: Duration) -> ReleaseAfter<Self> {
        ReleaseAfter::new(self, duration)
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
