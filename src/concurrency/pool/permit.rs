//! The permit of a pool: it holds an item, which is returned on drop.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::Pool;
use crate::error::AcquireError;
use crate::sync::lock;

/// An item of a [`Pool`], which is returned on drop. `S` derefs to the pool: it is a reference, or
/// an `Arc`.
///
/// What happens [when its holder panics](Pool#panics-of-holders) depends on how the pool was made.
/// Leaking the permit takes the item out of circulation.
#[must_use = "a permit limits nothing once it is dropped: bind it, as in `let _permit = ..`"]
pub struct Permit<S: Deref<Target = Pool<T>>, T> {
    /// `None` only while the item is being made, or dropped.
    pub(super) item: Option<T>,
    pool: S,
}

impl<S: Deref<Target = Pool<T>>, T> Permit<S, T> {
    /// Creates a permit with a place and its item, or with a place whose item is to be made. If
    /// making it fails, dropping this permit returns the place.
    #[inline]
    pub(super) fn new(pool: S, item: Option<T>) -> Self {
        Self { item, pool }
    }

    /// Takes an item that exists, or that can be made without waiting.
    #[inline]
    pub(in crate::concurrency) fn try_new(pool: S) -> Result<Self, AcquireError> {
        let found = lock(&pool.state).try_take();
        let item = match found.map_err(AcquireError::new)? {
            Some(item) => item,
            None => pool.made_now()?,
        };
        Ok(Self::new(pool, Some(item)))
    }

    /// Drops the item instead of returning it. If the pool can make items, the next caller makes
    /// another one; any other pool is smaller by one from now on.
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
        // Even if this panics, the place is returned afterwards.
        drop(self.item.take());
    }

    /// Returns the pool that the item belongs to.
    pub fn pool(&self) -> &Pool<T> {
        &self.pool
    }
}

impl<S: Deref<Target = Pool<T>>, T> Drop for Permit<S, T> {
    #[inline]
    fn drop(&mut self) {
        let item = self.item.take();
        self.pool.give_back(item);
    }
}

const HOLDS_ITEM: &str = "a permit holds an item until it is dropped";

impl<S: Deref<Target = Pool<T>>, T> Deref for Permit<S, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.item.as_ref().expect(HOLDS_ITEM)
    }
}

impl<S: Deref<Target = Pool<T>>, T> DerefMut for Permit<S, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.item.as_mut().expect(HOLDS_ITEM)
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
