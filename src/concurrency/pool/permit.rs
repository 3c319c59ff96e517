//! The right to an item of a pool, which goes back on drop.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::Pool;
use crate::concurrency::semaphore::{self, Semaphore};
use crate::error::AcquireError;
use crate::panic::catch_waker_panic;

/// The way to the semaphore of a pool, by the way to the pool.
pub(super) struct SemaphoreOf<S>(pub(super) S);

/// A pool, of whatever.
pub(super) trait HasSemaphore {
    /// Its semaphore.
    fn semaphore(&self) -> &Semaphore;
}

impl<T> HasSemaphore for Pool<T> {
    #[inline]
    fn semaphore(&self) -> &Semaphore {
        &self.semaphore
    }
}

impl<S: Deref<Target: HasSemaphore>> Deref for SemaphoreOf<S> {
    type Target = Semaphore;

    #[inline]
    fn deref(&self) -> &Semaphore {
        self.0.semaphore()
    }
}

/// An item of a [`Pool`], which goes back when this is dropped. `S` leads to the pool: a reference, or
/// an `Arc` for an [`OwnedPermit`].
///
/// [What happens to it when its holder panics](Pool#panics-of-holders) depends on how the pool was
/// made. Leaking it takes the item out of circulation.
#[must_use = "a permit that is dropped at once caps nothing"]
pub struct Permit<S: Deref<Target = Pool<T>>, T> {
    /// `None` only while it goes back.
    item: Option<T>,
    /// Dropped after the item has gone back, see [`items`](super::items).
    permit: semaphore::Permit<SemaphoreOf<S>>,
}

/// A [`Permit`] that shares its pool and so may move into a task.
pub type OwnedPermit<T> = Permit<Arc<Pool<T>>, T>;

impl<S: Deref<Target = Pool<T>>, T> Permit<S, T> {
    #[inline]
    pub(super) fn new(item: T, permit: semaphore::Permit<SemaphoreOf<S>>) -> Self {
        Self {
            item: Some(item),
            permit,
        }
    }

    /// Holds an item that was made for it.
    pub(super) fn made(item: T, permit: semaphore::Permit<SemaphoreOf<S>>) -> Self {
        permit.source().0.items().made();
        Self::new(item, permit)
    }

    /// Drops the item instead of giving it back. A pool that can make items has another one made by
    /// whoever comes next; any other pool is smaller by one from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// let connections = tollgate::Pool::with_factory(1, || "a connection".to_owned());
    /// let mut broken = connections.try_acquire()?;
    /// broken.clear();
    /// broken.discard();
    /// assert_eq!(*connections.try_acquire()?, "a connection");
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn discard(mut self) {
        let item = self.item.take();
        self.pool().lose();
        drop(item);
    }

    /// Takes an item that is there, or can be made without waiting.
    #[inline]
    pub(super) fn of_what_is_there(
        permit: semaphore::Permit<SemaphoreOf<S>>,
    ) -> Result<Self, AcquireError> {
        let item = permit.source().0.find_now()?;
        Ok(Self::new(item, permit))
    }

    /// Returns the pool that the item belongs to.
    pub fn pool(&self) -> &Pool<T> {
        &self.permit.source().0
    }
}

impl<S: Deref<Target = Pool<T>>, T> Drop for Permit<S, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(item) = self.item.take() {
            if let Some(lost) = self.pool().put_back(item) {
                self.pool().lose();
                catch_waker_panic(|| drop(lost));
            }
        }
    }
}

impl<S: Deref<Target = Pool<T>>, T> Deref for Permit<S, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.item {
            Some(item) => item,
            None => unreachable!("a permit holds an item until it is dropped"),
        }
    }
}

impl<S: Deref<Target = Pool<T>>, T> DerefMut for Permit<S, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.item {
            Some(item) => item,
            None => unreachable!("a permit holds an item until it is dropped"),
        }
    }
}

impl<S: Deref<Target = Pool<T>>, T: fmt::Debug> fmt::Debug for Permit<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("item", &**self)
            .field("pool", self.pool())
            .finish()
    }
}
