//! One shard of a map, with the state under its lock; and the one interface between the
//! [map](super::map) and the two kinds of contents, [rates](super::rates) and
//! [permits](super::permits).
//!
//! Methods that take a slot or the state of a shard run under the lock of that shard, and call no
//! foreign code. [`now`](Contents::now) and [`jittered`](Contents::jittered) may also run under it. All
//! others run under no lock.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashTable;

use crate::algorithm::QuotaChange;
use crate::time::Tick;

/// The maximum number of buckets, many of them perhaps empty, that a search passes.
const BUCKETS_PER_SEARCH: usize = 64;

/// The contents of a map.
pub trait Contents: Sized {
    /// The state of a key: 16 bytes, four of them for the hash of the key. So a table grows without
    /// calling the key's own `Hash`, under a lock or otherwise, and without fetching the key.
    type Slot;
    /// The state of a shard beside its entries.
    type ShardState;
    /// The user's setting for a key: its quota, or its number of permits.
    type Setting;
    /// The setting of a key that has its own, in the form that its slot needs.
    type Own;
    /// The object that an entry shares with its waiters and holders: a limiter, or a semaphore.
    type Limiter;

    /// Returns the hash of the key.
    fn hash(slot: &Self::Slot) -> u32;

    fn shard_state(&self) -> Self::ShardState;

    /// Converts the setting of a key that has its own.
    ///
    /// # Panics
    ///
    /// Panics if no key can have this setting.
    fn convert(&self, setting: Self::Setting) -> Self::Own;

    /// Returns the slot of a new key.
    fn slot(&self, state: &mut Self::ShardState, own: Option<&Self::Own>, hash: u32) -> Self::Slot;

    /// Returns the slot for reading a key without an entry.
    fn unused(
        &self,
        state: &mut Self::ShardState,
        own: Option<&Self::Own>,
        hash: u32,
    ) -> Self::Slot {
        self.slot(state, own, hash)
    }

    /// Returns the nanoseconds after which the entry can be dropped without loss, if no call uses
    /// it. `None` while it has waiters or holders, and has to stay.
    fn idle_after(&self, slot: &mut Self::Slot, state: &Self::ShardState, now: Tick)
    -> Option<u64>;

    /// Returns whether the entry can be dropped now without loss. This is the cheap form of
    /// [`idle_after`](Self::idle_after).
    fn is_idle(&self, slot: &mut Self::Slot, state: &Self::ShardState, now: Tick) -> bool {
        self.idle_after(slot, state, now) == Some(0)
    }

    /// Returns the limiter that an entry shares with waiters and holders, if there is one.
    fn limiter(slot: &Self::Slot) -> Option<&Arc<Self::Limiter>>;

    /// Checks two of the entries with a shared limiter, and returns the limiters that they no
    /// longer need, for the caller to drop under no lock.
    fn reclaim_limiters<K>(
        &self,
        _shard: &mut Shard<K, Self>,
        _now: Tick,
    ) -> [Option<Arc<Self::Limiter>>; 2] {
        [None, None]
    }

    /// Applies the current setting of all keys to the state of a shard, except to shared limiters.
    fn renew<K>(&self, _shard: &mut Shard<K, Self>, _how: Option<QuotaChange>) {}

    /// Applies a new setting to the entry of a key that has its own, except to a shared limiter.
    fn renew_own(&self, _held: Held<'_, Self>, _own: &Self::Own, _how: Option<QuotaChange>) {}

    /// Returns the time after which a refused call may try again, with jitter.
    fn jittered(&self, after: Duration) -> Duration {
        after
    }

    fn now(&self) -> Tick {
        Tick::default()
    }
}

/// The state under one lock.
pub struct Shard<K, C: Contents> {
    pub(super) table: HashTable<Entry<K, C>>,
    pub(super) state: C::ShardState,
    pub(super) closed: bool,
    /// The hash of the entry at which the next search of a full map begins.
    soonest: u32,
    /// The bucket at which the next search continues.
    hand: usize,
}

/// A key and its slot.
pub(super) struct Entry<K, C: Contents> {
    pub(super) key: K,
    pub(super) slot: C::Slot,
}

/// An entry, under the lock of its shard.
pub struct Held<'a, C: Contents> {
    pub(super) slot: &'a mut C::Slot,
    pub(super) state: &'a mut C::ShardState,
    pub(super) closed: bool,
}

/// Expands the 32 bits in the slot to 64 for the table. The table takes the bucket from the lowest
/// bits and a tag from the highest ones.
#[inline]
pub(super) fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

pub(super) fn spread_of<K, C: Contents>(entry: &Entry<K, C>) -> u64 {
    spread(C::hash(&entry.slot))
}

impl<K, C: Contents> Shard<K, C> {
    pub(super) fn new(contents: &C) -> Self {
        Self {
            table: HashTable::new(),
            state: contents.shard_state(),
            closed: false,
            soonest: 0,
            hand: 0,
        }
    }

    /// Finds the entry of a key.
    #[inline]
    pub(super) fn find<Q>(&mut self, hash: u32, key: &Q) -> Option<Held<'_, C>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        // The key may be on the heap, so the whole hash is compared first.
        let is = |entry: &Entry<K, C>| C::hash(&entry.slot) == hash && entry.key.borrow() == key;
        let entry = self.table.find_mut(spread(hash), is)?;
        Some(Held {
            slot: &mut entry.slot,
            state: &mut self.state,
            closed: self.closed,
        })
    }

    /// Inserts the entry of a key that has none.
    pub(super) fn insert(&mut self, entry: Entry<K, C>) -> Held<'_, C> {
        let hash = spread_of(&entry);
        let entry = self.table.insert_unique(hash, entry, spread_of).into_mut();
        Held {
            slot: &mut entry.slot,
            state: &mut self.state,
            closed: self.closed,
        }
    }

    /// Returns the limiters that the entries share with their waiters and holders.
    pub(super) fn limiters(&self) -> Vec<Arc<C::Limiter>> {
        let slots = self.table.iter().map(|entry| &entry.slot);
        slots.filter_map(C::limiter).cloned().collect()
    }

    pub(super) fn remove(&mut self, bucket: usize) -> Option<Entry<K, C>> {
        let occupied = self.table.get_bucket_entry(bucket).ok()?;
        Some(occupied.remove().0)
    }

    /// Looks at the next entry, and returns its bucket if it is idle.
    pub(super) fn next_if_idle(&mut self, contents: &C, now: Tick) -> Option<usize> {
        for _ in 0..BUCKETS_PER_SEARCH {
            let bucket = self.advance_hand();
            if let Some(entry) = self.table.get_bucket_mut(bucket) {
                let is_idle = contents.is_idle(&mut entry.slot, &self.state, now);
                return is_idle.then_some(bucket);
            }
        }
        None
    }

    /// Looks at `entries` entries, and returns the bucket of the one that becomes idle first, and
    /// the nanoseconds until then.
    pub(super) fn find_soonest_idle(
        &mut self,
        contents: &C,
        entries: usize,
        now: Tick,
    ) -> Option<(usize, u64)> {
        let (mut best, mut looked) = (None, 0);
        let soonest = self.soonest;
        let is_soonest = |entry: &Entry<K, C>| C::hash(&entry.slot) == soonest;
        let mut first = (self.table).find_bucket_index(spread(soonest), is_soonest);
        for _ in 0..BUCKETS_PER_SEARCH {
            let bucket = first.take().unwrap_or_else(|| self.advance_hand());
            let Some(entry) = self.table.get_bucket_mut(bucket) else {
                continue;
            };
            let after = contents.idle_after(&mut entry.slot, &self.state, now);
            if let Some(after) = after.filter(|after| best.is_none_or(|(_, least)| *after < least))
            {
                self.soonest = C::hash(&entry.slot);
                best = Some((bucket, after));
            }
            looked += 1;
            if looked == entries || matches!(best, Some((_, 0))) {
                break;
            }
        }
        best
    }

    /// Advances the hand, and returns the bucket that it has left.
    fn advance_hand(&mut self) -> usize {
        let bucket = self.hand;
        self.hand = if bucket + 1 < self.table.num_buckets() {
            bucket + 1
        } else {
            0
        };
        bucket
    }
}
