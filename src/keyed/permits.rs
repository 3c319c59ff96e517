//! Semaphores by key.
//!
//! 1. An entry holds a semaphore, which its permits and waits share. The entry stays while one of
//!    them exists, or while a caller has a strong or weak reference to the semaphore.
//! 2. A semaphore is never used for another key, nor for the same key after its eviction: all
//!    changes to a semaphore are dropped with it.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use super::Keyed;
use super::by_key::{Key, Settle};
use super::kind::{Decided, KeyLimit, KeyStatus, LockedEntry};
use crate::algorithm::QuotaChange;
use crate::concurrency::{OwnedPermit, Semaphore};
use crate::error::AcquireError;
use crate::first_use::too_late;
use crate::status::Snapshot;
use crate::sync::const_fn;
use crate::time::Tick;

/// 16 bytes.
pub struct PermitSlot {
    hash: u32,
    semaphore: Arc<Semaphore>,
}

/// The state of a map is the semaphore with the options, and with the limit of all keys without their
/// own limit. An insertion reads the limit under the lock of its shard, so either
/// [`set_permits`](Keyed::set_permits) finds the key there, or the key finds the new limit here.
impl KeyLimit for Semaphore {
    type Permit = OwnedPermit;
    type Setting = usize;
    type Limiter = Arc<Self>;
    type MapState = Self;
    type ShardState = ();
    type Slot = PermitSlot;

    const SETTING: &'static str = "permits";

    #[track_caller]
    fn into_pattern(self) -> Self {
        if self.is_closed() || self.in_use() > 0 {
            too_late();
        }
        self
    }

    fn map_state(&self, _: bool) -> Self {
        self.with_permits(self.permits())
    }

    fn shard_state(_: &Self) {}

    fn pattern(map: &Self) -> &Self {
        map
    }

    fn setting(&self) -> usize {
        self.permits()
    }

    #[track_caller]
    fn set(&self, permits: usize, _: Option<QuotaChange>) {
        self.set_permits(permits);
    }

    fn close(&self) {
        self.close();
    }

    fn slot(map: &Self, (): &mut (), hash: u32) -> PermitSlot {
        Self::slot_with(map, map.permits(), hash)
    }

    fn slot_with(map: &Self, permits: usize, hash: u32) -> PermitSlot {
        Self::assert_permits(permits);
        let semaphore = Arc::new(map.with_permits(permits));
        PermitSlot { hash, semaphore }
    }

    #[inline]
    fn hash(slot: &PermitSlot) -> u32 {
        slot.hash
    }

    fn limiter(slot: &PermitSlot) -> Option<&Arc<Self>> {
        Some(&slot.semaphore)
    }

    fn idle_after(_: &Self, (): &(), slot: &mut PermitSlot, _: Tick) -> Option<u64> {
        // This is the only reference, no `Weak` can be upgraded, and no permit was leaked.
        let semaphore = Arc::get_mut(&mut slot.semaphore)?;
        (semaphore.available_permits() >= semaphore.permits()).then_some(0)
    }

    #[inline]
    fn take(_: &Self, entry: &mut LockedEntry<'_, Self>, n: u64, _: Tick) -> Option<OwnedPermit> {
        let semaphore = &entry.slot.semaphore;
        semaphore.try_take(n).ok()?;
        Some(OwnedPermit::new(Arc::clone(semaphore), n))
    }

    fn decide(
        _: &Self,
        entry: LockedEntry<'_, Self>,
        n: u64,
        waits: bool,
    ) -> Result<Decided<Self>, AcquireError> {
        let semaphore = Arc::clone(&entry.slot.semaphore);
        if waits {
            return Ok(Decided::ByLimiter(semaphore));
        }
        semaphore.try_take(n)?;
        Ok(Decided::Admitted(OwnedPermit::new(semaphore, n)))
    }

    fn status(_: &Self, entry: LockedEntry<'_, Self>) -> Result<KeyStatus, Arc<Self>> {
        Err(Arc::clone(&entry.slot.semaphore))
    }
}

impl Settle for Semaphore {}

/// One key of a map of semaphores.
///
/// A permit keeps its key alive, but not the map. Changes to the [semaphore of a
/// permit](OwnedPermit::semaphore), such as closing it, affect only its key, and last until the key
/// is dropped, which can happen as soon as the key is not in use. The same holds for a
/// [forgotten](OwnedPermit::forget) permit.
impl<Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Key<'_, Semaphore, Q, S> {
    /// Returns the state of the key at one moment. See [`Semaphore::snapshot`].
    ///
    /// # Examples
    ///
    /// ```
    /// let hosts = tollgate::Keyed::<u64, _>::semaphores(3);
    /// let _permit = hosts.key(&7).try_acquire()?;
    /// let snapshot = hosts.key(&7).snapshot();
    /// assert_eq!((snapshot.limit, snapshot.in_use, snapshot.waiting), (3, 1, 0));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let semaphore = self.read_or_new(|entry| Arc::clone(&entry.slot.semaphore));
        semaphore.snapshot()
    }
}

/// Construction of a map of semaphores.
impl<K> Keyed<K, Semaphore> {
    const_fn! {
        /// Creates a map with `permits` permits for every key. See [`new`](Self::new) for a map of
        /// semaphores with options.
        ///
        /// # Panics
        ///
        /// Panics if `permits` is above [`Semaphore::MAX_PERMITS`].
        ///
        /// # Examples
        ///
        /// ```
        /// use tollgate::Keyed;
        ///
        /// let hosts = Keyed::<String, _>::semaphores(2);
        /// let host = hosts.key("example.org");
        /// let permits = (host.try_acquire()?, host.try_acquire()?);
        /// assert!(host.try_acquire().is_err());
        /// assert!(hosts.key("example.com").try_acquire().is_ok());
        /// # Ok::<_, tollgate::AcquireError>(())
        /// ```
        #[track_caller]
        pub fn semaphores(permits: usize) -> Self {
            Self::of_pattern(Semaphore::new(permits))
        }
    }
}

/// Options of a map of semaphores.
impl<K, S> Keyed<K, Semaphore, S> {
    /// Gives keys their own limits: the map calls `permits_of`, under no lock, for each key that it
    /// inserts. Call [`requota`](Self::requota) when the limit that it returns for a key has
    /// changed.
    ///
    /// The function gets the key in the form that the map keeps. A call panics if the limit of its
    /// key is above [`Semaphore::MAX_PERMITS`].
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Keyed;
    ///
    /// let users = Keyed::<u64, _>::semaphores(1).permits(|user| if *user == 0 { 8 } else { 1 });
    /// assert_eq!(users.key(&0).snapshot().available, 8);
    /// assert_eq!(users.key(&7).snapshot().available, 1);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn permits(self, permits_of: impl Fn(&K) -> usize + Send + Sync + 'static) -> Self {
        self.with_settings(permits_of)
    }
}

/// The limit of all keys.
impl<K: Hash + Eq, S: BuildHasher> Keyed<K, Semaphore, S> {
    /// Changes the limit of all keys, even while permits are held and callers are waiting; see
    /// [`Semaphore::set_permits`]. Waiters that now fit are admitted, and those that request more than
    /// a lower limit are refused.
    ///
    /// The new limit applies to a key as soon as the call has visited it, and to all keys when the
    /// call returns. It replaces any limit that was set on the [semaphore of a
    /// permit](OwnedPermit::semaphore). Keys with [their own limits](Self::permits) keep them. The
    /// duration of the call grows with the number of keys. Calls for keys continue in the meantime,
    /// but a key that the call is about to change cannot be evicted. Raising the limit refuses no
    /// waiter; see [`reject_impossible`](Self::reject_impossible).
    ///
    /// # Panics
    ///
    /// Panics if `permits` is above [`Semaphore::MAX_PERMITS`]; then nothing has changed.
    ///
    /// # Examples
    ///
    /// ```
    /// let hosts = tollgate::Keyed::<u64, _>::semaphores(1);
    /// let _permit = hosts.key(&7).try_acquire()?;
    /// hosts.set_permits(3);
    /// assert_eq!(hosts.key(&7).snapshot().available, 2);
    /// assert_eq!(hosts.key(&8).snapshot().available, 3);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn set_permits(&self, permits: usize) {
        self.set_all(permits, |_, _| ());
    }

    /// Refuses the waiters of each key that request more than its limit; see
    /// [`Semaphore::reject_impossible`]. The duration of the call grows with the number of keys.
    ///
    /// # Examples
    ///
    /// ```
    /// let hosts = tollgate::Keyed::<u64, _>::semaphores(0);
    /// // Calls for 5 permits of a host wait meanwhile.
    /// hosts.set_permits(2);
    /// hosts.reject_impossible();
    /// ```
    pub fn reject_impossible(&self) {
        let map = self.map();
        map.visit_limiters(|shard| shard.limiters(), Semaphore::reject_impossible);
    }
}
