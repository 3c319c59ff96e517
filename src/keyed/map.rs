//! The sharded table of keys: how a call finds an entry, and how a new key is inserted.
//!
//! 1. Each [shard](super::shard) is a hash table with its own lock, and a call locks the shard of its
//!    key. The locks are leaves, with one exception: a call may lock the limiter of a key, or the one
//!    that is the pattern of all keys, while it holds one.
//! 2. Under a lock no foreign code runs except `Eq` and `Borrow` of keys, and `Clone` in
//!    [`keys`](crate::Keyed::keys), [`retain`](crate::Keyed::retain) and
//!    [`requota_all`](crate::Keyed::requota_all). Keys are
//!    hashed and cloned before the lock, and dropped after it. A table that grows takes the hashes
//!    from the slots.
//! 3. All shards together hold at most `max_keys` entries: one counter for the whole map counts a
//!    new entry before it is inserted, and a removed entry after its removal. An entry that
//!    replaces another one does not change the count.
//! 4. A new key looks at a bounded number of entries for one that it can evict: at twice
//!    [`ENTRIES_WHEN_FULL`] in a full map, otherwise at one. A hand moves through the table, so that
//!    searches cover all of it. In a full map, a search begins with the entry that had the least
//!    backlog in earlier searches, so that this entry stays a candidate.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::WhenFull;
use super::kind::{Entry, KeyLimit, LockedEntry};
use super::shard::{Shard, spread, spread_of};
use crate::error::{AcquireError, ErrorKind};
use crate::sync::{AtomicUsize, KEYS_PER_SHARD, Mutex, MutexGuard, Ordering, lock};
use crate::time::Tick;

/// The number of entries that a new key looks at when the map is full.
const ENTRIES_WHEN_FULL: usize = 3;

/// An entry that has been idle for this many nanoseconds is evicted even when the map has room.
const IDLE_NANOS: u64 = 60_000_000_000;

/// The approximate maximum number of keys of a shard. It bounds the wait of one call while a table
/// grows.
const MOST_KEYS_PER_SHARD: usize = 1 << 16;

/// The user's function, which returns the setting of a key.
pub(super) type SettingOf<K, Setting> = Arc<dyn Fn(&K) -> Setting + Send + Sync>;

/// The keys of a map, in shards.
pub(super) struct Map<K, T: KeyLimit, S> {
    pub(super) state: T::MapState,
    setting_of: Option<SettingOf<K, T::Setting>>,
    hasher: S,
    shards: Box<[Padded<Shard<K, T>>]>,
    len: AtomicUsize,
    max_keys: usize,
    when_full: WhenFull,
}

/// A lock on its own cache lines, so that threads that use other shards do not contend for them.
#[repr(align(128))]
struct Padded<P>(Mutex<P>);

/// Returns the number of shards for a map of `max_keys` keys.
fn shards_for(max_keys: usize) -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    let threads = *THREADS.get_or_init(|| {
        let threads = std::thread::available_parallelism();
        threads.map_or(4, std::num::NonZero::get)
    });
    let wanted = (4 * threads).clamp(16, 1024).next_power_of_two();
    let worthwhile = (max_keys / KEYS_PER_SHARD).max(1);
    let needed = max_keys.div_ceil(MOST_KEYS_PER_SHARD);
    wanted
        .min(1 << worthwhile.ilog2())
        .max(needed.next_power_of_two())
}

impl<K, T: KeyLimit, S> Map<K, T, S> {
    pub(super) fn new(
        state: T::MapState,
        setting_of: Option<SettingOf<K, T::Setting>>,
        hasher: S,
        max_keys: usize,
        when_full: WhenFull,
    ) -> Self {
        let shard = |_| Padded(Mutex::new(Shard::new(&state)));
        Self {
            shards: (0..shards_for(max_keys)).map(shard).collect(),
            state,
            setting_of,
            hasher,
            len: AtomicUsize::new(0),
            max_keys,
            when_full,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Returns the current tick, if limits are rates.
    #[inline]
    pub(super) fn now(&self) -> Tick {
        T::now(&self.state)
    }

    /// Calls the user's function for a key, if there is one, and returns a slot with its result.
    pub(super) fn slot_with_setting<B: Borrow<K>>(
        &self,
        key: impl FnOnce() -> B,
        hash: u32,
    ) -> Option<T::Slot> {
        let setting_of = self.setting_of.as_ref()?;
        let setting = setting_of(key().borrow());
        Some(T::slot_with(&self.state, setting, hash))
    }

    /// Locks the shard of a hash. The highest bits choose the shard, since a table uses the lowest
    /// ones.
    #[inline]
    pub(super) fn lock(&self, hash: u32) -> MutexGuard<'_, Shard<K, T>> {
        let shard = (u64::from(hash) * self.shards.len() as u64) >> 32;
        lock(&self.shards[shard as usize].0)
    }

    /// Locks the shard of a hash, unless the map is closed.
    fn lock_open(&self, hash: u32) -> Result<MutexGuard<'_, Shard<K, T>>, AcquireError> {
        let shard = self.lock(hash);
        if shard.closed {
            Err(AcquireError::new(ErrorKind::Closed))
        } else {
            Ok(shard)
        }
    }

    /// Locks the shards one after the other.
    pub(super) fn each_shard(&self) -> impl Iterator<Item = MutexGuard<'_, Shard<K, T>>> {
        self.shards.iter().map(|shard| lock(&shard.0))
    }

    /// Visits the limiters that `of_shard` returns under the lock of each shard. No lock is held
    /// during a visit.
    pub(super) fn visit_limiters(
        &self,
        of_shard: impl Fn(&mut Shard<K, T>) -> Vec<T::Limiter>,
        visit: impl Fn(&T),
    ) {
        for mut shard in self.each_shard() {
            let limiters = of_shard(&mut shard);
            drop(shard);
            for limiter in limiters {
                visit(limiter.borrow());
            }
        }
    }

    /// Counts a new entry, if there is room for it. This is one atomic step, so two concurrent keys
    /// cannot both take the last slot.
    fn count_up(&self) -> bool {
        let counted = |len: usize| (len < self.max_keys).then_some(len + 1);
        // Relaxed: the counter publishes nothing but itself.
        (self.len)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted)
            .is_ok()
    }

    /// Makes room for a new entry: counts it, or evicts another entry.
    fn make_room(
        &self,
        shard: &mut Shard<K, T>,
        now: Tick,
    ) -> Result<Option<Entry<K, T>>, AcquireError> {
        if self.len() < self.max_keys {
            let before = Tick::from_nanos(now.as_nanos().saturating_sub(IDLE_NANOS));
            if let Some(bucket) = shard.next_if_idle(&self.state, before) {
                return Ok(shard.remove(bucket));
            }
            if self.count_up() {
                return Ok(None);
            }
        }
        let bucket = self.evictable(shard, now)?;
        Ok(shard.remove(bucket))
    }

    /// Finds an entry that can be evicted.
    fn evictable(&self, shard: &mut Shard<K, T>, now: Tick) -> Result<usize, AcquireError> {
        match shard.find_soonest_idle(&self.state, ENTRIES_WHEN_FULL, now) {
            Some((bucket, after)) if after == 0 || self.when_full == WhenFull::Evict => Ok(bucket),
            Some((_, after)) => {
                let after = T::jittered(&self.state, Duration::from_nanos(after));
                Err(AcquireError::after(ErrorKind::TooManyKeys, after))
            }
            None => Err(AcquireError::new(ErrorKind::TooManyKeys)),
        }
    }
}

impl<K, T: KeyLimit, S: BuildHasher> Map<K, T, S> {
    /// Hashes a key, and makes all bits of the result depend on all others, because good fast
    /// hashers leave that mixing to the table.
    #[inline]
    pub(super) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u32 {
        let hash = self.hasher.hash_one(key) ^ 0x243f_6a88_85a3_08d3;
        let wide = u128::from(hash) * 0x9e37_79b9_7f4a_7c15;
        ((wide as u64 ^ (wide >> 64) as u64) >> 32) as u32
    }

    /// Calls `then` with the entry of a key, under the lock of its shard, with the time before the
    /// lock.
    ///
    /// If there is none, `absent` may decide that none is needed. Otherwise the key is inserted,
    /// and `then` gets the time of the insertion.
    pub(super) fn with_entry<Q, R>(
        &self,
        key: &Q,
        hash: u32,
        absent: impl FnOnce(&T::ShardState, Tick) -> Option<R>,
        then: impl FnOnce(LockedEntry<'_, T>, Tick) -> R,
    ) -> Result<R, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let now = self.now();
        let mut shard = self.lock_open(hash)?;
        match shard.find(hash, key) {
            Some(held) => Ok(then(held, now)),
            None => self.with_absent(shard, key, hash, now, absent, then),
        }
    }

    /// Does the same for a key that is not in its shard, which is locked since `now` or later.
    #[inline(always)]
    pub(super) fn with_absent<Q, R>(
        &self,
        mut shard: MutexGuard<'_, Shard<K, T>>,
        key: &Q,
        hash: u32,
        now: Tick,
        absent: impl FnOnce(&T::ShardState, Tick) -> Option<R>,
        then: impl FnOnce(LockedEntry<'_, T>, Tick) -> R,
    ) -> Result<R, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if shard.closed {
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        if let Some(result) = absent(&shard.state, now) {
            return Ok(result);
        }
        // A rejected key is not even cloned.
        if self.len() >= self.max_keys {
            self.evictable(&mut shard, now)?;
        }
        drop(shard);
        self.insert(key, hash, then)
    }

    /// Inserts a key, and calls `then` with its entry.
    #[inline(never)]
    fn insert<Q, R>(
        &self,
        key: &Q,
        hash: u32,
        then: impl FnOnce(LockedEntry<'_, T>, Tick) -> R,
    ) -> Result<R, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let owned = key.to_owned();
        let slot = self.slot_with_setting(|| &owned, hash);
        // This is declared before the lock, so it is dropped after the release of the lock.
        let (_leftover, _evicted);
        let mut guard = self.lock_open(hash)?;
        let shard = &mut *guard;
        let now = self.now();
        // Another call may have inserted the key in the meantime.
        if let Some(held) = shard.find(hash, key) {
            return Ok(then(held, now));
        }
        _leftover = T::reclaim_limiters(&self.state, &mut shard.state, &mut shard.table, now);
        _evicted = self.make_room(shard, now)?;
        let slot = slot.unwrap_or_else(|| T::slot(&self.state, &mut shard.state, hash));
        Ok(then(shard.insert(Entry { key: owned, slot }), now))
    }

    /// Reclaims unneeded limiters in the shard of a hash.
    pub(super) fn reclaim_limiters(&self, hash: u32) {
        let now = self.now();
        let _leftover;
        let mut guard = self.lock(hash);
        let shard = &mut *guard;
        _leftover = T::reclaim_limiters(&self.state, &mut shard.state, &mut shard.table, now);
    }

    /// Removes all idle entries, and frees the memory of their slots.
    pub(super) fn shrink(&self, now: Tick) {
        for mut shard in self.each_shard() {
            let Shard { table, state, .. } = &mut *shard;
            let idle =
                table.extract_if(|entry| T::is_idle(&self.state, state, &mut entry.slot, now));
            let removed: Vec<_> = idle.collect();
            table.shrink_to_fit(spread_of);
            self.len.fetch_sub(removed.len(), Ordering::Relaxed);
            drop(shard);
        }
    }

    /// Removes the entry of a key, unless it is in use.
    pub(super) fn remove(&self, key: &K, now: Tick)
    where
        K: Hash + Eq,
    {
        let hash = self.hash(key);
        let _removed;
        let mut guard = self.lock(hash);
        let shard = &mut *guard;
        let Ok(mut entry) = (shard.table).find_entry(spread(hash), |entry| entry.key == *key)
        else {
            return;
        };
        let slot = &mut entry.get_mut().slot;
        if T::idle_after(&self.state, &shard.state, slot, now).is_some() {
            _removed = entry.remove().0;
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns copies of the keys whose entries are wanted; see [`read`](Self::read).
    pub(super) fn copies(
        &self,
        wanted: impl Fn(&mut T::Slot, &T::ShardState, Tick) -> bool,
    ) -> impl Iterator<Item = K>
    where
        K: Clone,
    {
        let wanted = move |slot: &mut _, shard: &_, now| wanted(slot, shard, now).then_some(());
        self.read(wanted).map(|(key, ())| key)
    }

    /// Returns copies of keys, and what `read` returns for their entries, one shard after the other. A shard is read
    /// under its lock, and `read` gets the time of that moment; the results are used under no lock.
    pub(super) fn read<R>(
        &self,
        read: impl Fn(&mut T::Slot, &T::ShardState, Tick) -> Option<R>,
    ) -> impl Iterator<Item = (K, R)>
    where
        K: Clone,
    {
        self.each_shard().flat_map(move |mut shard| {
            let Shard { table, state, .. } = &mut *shard;
            let now = self.now();
            let found = table.iter_mut().filter_map(|entry| {
                let found = read(&mut entry.slot, state, now)?;
                Some((entry.key.clone(), found))
            });
            found.collect::<Vec<_>>()
        })
    }

    /// Inserts an entry into a map that nobody uses yet, if there is room and no entry of the key. `slot` returns the
    /// slot of the key.
    pub(super) fn insert_first(
        &self,
        key: K,
        hash: u32,
        slot: impl FnOnce(&mut T::ShardState) -> T::Slot,
    ) where
        K: Eq,
    {
        let mut shard = self.lock(hash);
        if shard.find(hash, &key).is_none() && self.count_up() {
            let slot = slot(&mut shard.state);
            shard.insert(Entry { key, slot });
        }
    }
}
