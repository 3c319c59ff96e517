//! Operations that only permits of a [`Semaphore`] have: acquiring behind any pointer, splitting, merging and
//! forgetting.

use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{Semaphore, requested};
use crate::concurrency::{Acquire, Permit};
use crate::error::AcquireError;
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
        let fits = waiter.permits == self.count as u64 && state.free >= 0 && !state.closed;
        let is_alone = queues.permits.len() == 1 && queues.permits.cost(id).is_some();
        Arc::ptr_eq(semaphore, &self.semaphore) && fits && is_alone
    }
}

/// Waiting for a [`Semaphore`] behind any pointer.
impl<S: Deref<Target = Semaphore>> Acquire<S> {
    /// Creates the wait of [`Semaphore::acquire_many`](crate::Semaphore::acquire_many) for a semaphore behind any
    /// pointer: not only a reference or an `Arc` of the semaphore, but also one of a value that contains it. A
    /// throttle that contains a semaphore polls this future in its own; for a wait with a timeout or a token, put it
    /// into a [`Waiting`](crate::wait::Waiting::new). The pointer, and each clone of it, must always lead to the same
    /// semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::Deref;
    /// use std::sync::Arc;
    /// use tollgate::Semaphore;
    /// use tollgate::semaphore::Acquire;
    /// use tollgate::wait::Waiting;
    ///
    /// struct Host {
    ///     slots: Semaphore,
    ///     // and more
    /// }
    ///
    /// /// The slots of a shared host.
    /// struct Slots(Arc<Host>);
    ///
    /// impl Deref for Slots {
    ///     type Target = Semaphore;
    ///
    ///     fn deref(&self) -> &Semaphore {
    ///         &self.0.slots
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let host = Arc::new(Host { slots: Semaphore::new(2) });
    /// let permit = Waiting::new(Acquire::new(Slots(Arc::clone(&host)), 1)).await?;
    /// // The permit can move into a task: it shares the host, and no second `Arc` is necessary.
    /// tokio::spawn(async move { drop(permit) });
    /// tokio::task::yield_now().await;
    /// assert_eq!(host.slots.available_permits(), 2);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn new(semaphore: S, permits: u64) -> Self {
        Self::of(semaphore, requested(permits))
    }

    /// Polls like the future, and takes the permits without a guard: returns the pointer to the semaphore. The caller
    /// [releases](Semaphore::release) the permits. If the future is dropped before, it has taken none.
    ///
    /// # Panics
    ///
    /// Panics if it is polled again after it has completed.
    ///
    /// # Errors
    ///
    /// The same as for [`Semaphore::acquire`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use tollgate::Semaphore;
    /// use tollgate::semaphore::Acquire;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = Semaphore::new(3);
    /// let mut acquire = Acquire::new(&semaphore, 2);
    /// poll_fn(|context| acquire.poll_take(context)).await?;
    /// assert_eq!(semaphore.available_permits(), 1);
    /// semaphore.release(2);
    /// # Ok(())
    /// # }
    /// ```
    #[inline(always)]
    pub fn poll_take(&mut self, context: &Context<'_>) -> Poll<Result<S, AcquireError>> {
        self.poll_found(context).map_ok(|(semaphore, ())| semaphore)
    }

    /// Returns the pointer to the semaphore, or `None` once the future has completed.
    #[inline]
    pub fn semaphore(&self) -> Option<&S> {
        self.source.as_ref()
    }
}

/// Acquiring, splitting and merging the permits of a [`Semaphore`].
impl<S: Deref<Target = Semaphore>> Permit<S> {
    /// Takes permits of a semaphore behind any pointer without waiting, see
    /// [`Acquire::new`](crate::semaphore::Acquire::new).
    ///
    /// # Errors
    ///
    /// The same as for [`Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use tollgate::Semaphore;
    /// use tollgate::semaphore::Permit;
    ///
    /// let semaphore = Rc::new(Semaphore::new(3));
    /// let two = Permit::try_new(Rc::clone(&semaphore), 2)?;
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # drop(two);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_new(semaphore: S, permits: u64) -> Result<Self, AcquireError> {
        semaphore.try_take(permits)?;
        Ok(Self::new(semaphore, permits))
    }

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
