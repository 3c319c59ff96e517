//! The handles of one key: one that borrows the map, and one that shares it.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::sync::Arc;

use super::acquire::sealed::Sealed;
use super::hashing::KeyHashing;
use super::{Keyed, Kind};

/// A handle to one key of a [`Keyed`], with the methods of a [`RateLimiter`](crate::RateLimiter) or a
/// [`Semaphore`](crate::Semaphore); [`Key`] and [`OwnedKey`] are the two of them.
///
/// Making one looks nothing up and allocates nothing. The entry of its key may come and go while the
/// handle lives.
pub struct Handle<T, A> {
    pub(super) address: A,
    kind: PhantomData<fn() -> T>,
}

/// A handle that borrows the map and the key; made by [`Keyed::key`].
pub type Key<'a, K, T, Q = K, S = KeyHashing> = Handle<T, (&'a Keyed<K, T, S>, &'a Q)>;

/// A handle that shares the map and may move into a task or an adapter; made by
/// [`Keyed::key_owned`].
pub type OwnedKey<K, T, S = KeyHashing> = Handle<T, (Arc<Keyed<K, T, S>>, K)>;

/// A map and one of its keys. It is only met in bounds; there is no need to name it.
///
/// Sealed: it is implemented here alone.
pub trait Address<T: Kind>: Sealed + Clone {
    /// The key as the map keeps it.
    type Key: Hash + Eq + Borrow<Self::Query>;
    /// The key as the handle has it.
    type Query: Hash + Eq + ToOwned<Owned = Self::Key> + ?Sized;
    /// How the map hashes keys.
    type Hasher: BuildHasher + Default + Clone;

    /// The map.
    #[doc(hidden)]
    fn keyed(&self) -> &Keyed<Self::Key, T, Self::Hasher>;

    /// The key.
    #[doc(hidden)]
    fn query(&self) -> &Self::Query;
}

impl<M, Q> Sealed for (M, Q) {}

impl<K, T: Kind, Q: ?Sized, S> Address<T> for (&Keyed<K, T, S>, &Q)
where
    K: Hash + Eq + Borrow<Q>,
    Q: Hash + Eq + ToOwned<Owned = K>,
    S: BuildHasher + Default + Clone,
{
    type Key = K;
    type Query = Q;
    type Hasher = S;

    #[inline]
    fn keyed(&self) -> &Keyed<K, T, S> {
        self.0
    }

    #[inline]
    fn query(&self) -> &Q {
        self.1
    }
}

impl<K, T: Kind, S> Address<T> for (Arc<Keyed<K, T, S>>, K)
where
    K: Hash + Eq + Clone,
    S: BuildHasher + Default + Clone,
{
    type Key = K;
    type Query = K;
    type Hasher = S;

    #[inline]
    fn keyed(&self) -> &Keyed<K, T, S> {
        &self.0
    }

    #[inline]
    fn query(&self) -> &K {
        &self.1
    }
}

impl<T, A> Handle<T, A> {
    #[inline]
    pub(super) fn new(address: A) -> Self {
        Self {
            address,
            kind: PhantomData,
        }
    }
}

impl<'a, K, T: Kind, Q: ?Sized, S> Key<'a, K, T, Q, S> {
    /// Returns the key.
    pub fn key(&self) -> &'a Q {
        self.address.1
    }

    /// Returns the map that the key belongs to.
    pub fn keyed(&self) -> &'a Keyed<K, T, S> {
        self.address.0
    }
}

impl<K, T: Kind, S> OwnedKey<K, T, S> {
    /// Returns the key.
    pub fn key(&self) -> &K {
        &self.address.1
    }

    /// Returns the map that the key belongs to.
    pub fn keyed(&self) -> &Arc<Keyed<K, T, S>> {
        &self.address.0
    }
}

impl<T, A: Clone> Clone for Handle<T, A> {
    #[inline]
    fn clone(&self) -> Self {
        Self::new(self.address.clone())
    }
}

impl<T, A: Copy> Copy for Handle<T, A> {}

impl<T, M, Q: fmt::Debug> fmt::Debug for Handle<T, (M, Q)> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.address.1).finish()
    }
}
