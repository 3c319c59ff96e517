//! The right to an item of a pool, which goes back on drop.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::{Pool, Slot};

/// An item of a [`Pool`], which goes back when this is dropped.
///
/// [What happens to it when its holder panics](Pool#panics-of-holders) depends on how the pool was
/// made. Leaking it takes the item out of circulation.
#[must_use = "a permit that is dropped at once caps nothing"]
pub struct Permit<'a, T>(Held<&'a Pool<T>, T>);

/// An item of a shared [`Pool`], which goes back when this is dropped.
///
/// [What happens to it when its holder panics](Pool#panics-of-holders) depends on how the pool was
/// made. Leaking it takes the item out of circulation.
#[must_use = "a permit that is dropped at once caps nothing"]
pub struct OwnedPermit<T>(Held<Arc<Pool<T>>, T>);

/// An item that goes back when this is dropped.
struct Held<S: Deref<Target = Pool<T>>, T> {
    pool: S,
    /// There is an item in it, but for the moments before it is made and while it goes back.
    slot: Slot<T>,
}

impl<S: Deref<Target = Pool<T>>, T> Held<S, T> {
    /// A vacancy is filled. It is held before, so that it goes back if nothing can be made of it.
    #[inline]
    fn filled(mut self) -> Self {
        self.pool.fill(&mut self.slot);
        self
    }

    #[inline]
    fn item(&self) -> &T {
        match &self.slot {
            Some(item) => item,
            None => unreachable!("a permit holds an item until it is dropped"),
        }
    }

    #[inline]
    fn item_mut(&mut self) -> &mut T {
        match &mut self.slot {
            Some(item) => item,
            None => unreachable!("a permit holds an item until it is dropped"),
        }
    }
}

impl<S: Deref<Target = Pool<T>>, T> Drop for Held<S, T> {
    #[inline]
    fn drop(&mut self) {
        let slot = self.slot.take();
        self.pool.put_back(slot);
    }
}

macro_rules! permit {
    ([$($generics:tt)*] $permit:ty, $name:literal, $source:ty) => {
        impl<$($generics)* T> $permit {
            #[inline]
            pub(super) fn new(pool: $source, slot: Slot<T>) -> Self {
                Self::holding(pool, slot).filled()
            }

            /// Holds what may be a vacancy, which is to be [filled](Self::filled).
            #[inline]
            pub(super) fn holding(pool: $source, slot: Slot<T>) -> Self {
                Self(Held { pool, slot })
            }

            #[inline]
            pub(super) fn filled(self) -> Self {
                Self(self.0.filled())
            }

            /// The pool that the item belongs to.
            pub fn pool(&self) -> &$source {
                &self.0.pool
            }
        }

        impl<$($generics)* T> Deref for $permit {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                self.0.item()
            }
        }

        impl<$($generics)* T> DerefMut for $permit {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                self.0.item_mut()
            }
        }

        impl<$($generics)* T: fmt::Debug> fmt::Debug for $permit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name)
                    .field("item", self.0.item())
                    .field("pool", &*self.0.pool)
                    .finish()
            }
        }
    };
}

permit!(['a,] Permit<'a, T>, "Permit", &'a Pool<T>);
permit!([] OwnedPermit<T>, "OwnedPermit", Arc<Pool<T>>);
