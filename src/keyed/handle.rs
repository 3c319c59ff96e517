//! The handles of one key: borrowed from the map, or sharing it.

use std::fmt;
use std::sync::Arc;

use super::hashing::KeyHashing;
use super::{Keyed, Kind};

/// One key of a [`Keyed`], to be used as one uses a [`RateLimiter`](crate::RateLimiter) or a
/// [`Semaphore`](crate::Semaphore); made by [`Keyed::key`].
///
/// It is two references and nothing else: nothing is looked up and nothing is allocated when it is
/// made. What there is for its key may come and go while it lives.
pub struct Key<'a, K, T: Kind, Q: ?Sized = K, S = KeyHashing> {
    pub(super) keyed: &'a Keyed<K, T, S>,
    pub(super) key: &'a Q,
}

/// One key of a shared [`Keyed`], which may move into a task or an adapter; made by
/// [`Keyed::key_owned`].
pub struct OwnedKey<K, T: Kind, S = KeyHashing> {
    pub(super) keyed: Arc<Keyed<K, T, S>>,
    pub(super) key: K,
}

impl<'a, K, T: Kind, Q: ?Sized, S> Key<'a, K, T, Q, S> {
    /// The key.
    pub fn key(&self) -> &'a Q {
        self.key
    }

    /// The map that it belongs to.
    pub fn keyed(&self) -> &'a Keyed<K, T, S> {
        self.keyed
    }
}

impl<K, T: Kind, S> OwnedKey<K, T, S> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The map that it belongs to.
    pub fn keyed(&self) -> &Arc<Keyed<K, T, S>> {
        &self.keyed
    }
}

impl<K, T: Kind, Q: ?Sized, S> Clone for Key<'_, K, T, Q, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, T: Kind, Q: ?Sized, S> Copy for Key<'_, K, T, Q, S> {}

impl<K: Clone, T: Kind, S> Clone for OwnedKey<K, T, S> {
    fn clone(&self) -> Self {
        Self {
            keyed: Arc::clone(&self.keyed),
            key: self.key.clone(),
        }
    }
}

impl<K, T: Kind, Q: fmt::Debug + ?Sized, S> fmt::Debug for Key<'_, K, T, Q, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.key).finish()
    }
}

impl<K: fmt::Debug, T: Kind, S> fmt::Debug for OwnedKey<K, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnedKey").field(&self.key).finish()
    }
}
