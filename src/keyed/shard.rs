//! One shard of a map, with the state under its lock.

use std::borrow::Borrow;

use hashbrown::HashTable;

use super::kind::{Entry, KeyLimit, LockedEntry};
use crate::time::Tick;

/// The maximum number of buckets, many of them perhaps empty, that a search passes.
const BUCKETS_PER_SEARCH: usize = 64;

/// The state under one lock.
pub(super) struct Shard<K, T: KeyLimit> {
    pub(super) table: HashTable<Entry<K, T>>,
    pub(super) state: T::ShardState,
    pub(super) closed: bool,
    /// The hash of the entry at which the next search of a full map begins.
    soonest: u32,
    /// The bucket at which the next search continues.
    hand: usize,
    /// The hashes of the entries that searches have looked at.
    #[cfg(test)]
    pub(super) looked_at: Vec<u32>,
}

/// Expands the 32 bits in the slot to 64 for the table. The table takes the bucket from the lowest
/// bits and a tag from the highest ones.
#[inline]
pub(super) fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

pub(super) fn spread_of<K, T: KeyLimit>(entry: &Entry<K, T>) -> u64 {
    spread(T::hash(&entry.slot))
}

impl<K, T: KeyLimit> Shard<K, T> {
    pub(super) fn new(map: &T::MapState) -> Self {
        Self {
            table: HashTable::new(),
            state: T::shard_state(map),
            closed: false,
            soonest: 0,
            hand: 0,
            #[cfg(test)]
            looked_at: Vec::new(),
        }
    }

    /// Finds the entry of a key.
    #[inline]
    pub(super) fn find<Q>(&mut self, hash: u32, key: &Q) -> Option<LockedEntry<'_, T>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        // The key may be on the heap, so the whole hash is compared first.
        let is = |entry: &Entry<K, T>| T::hash(&entry.slot) == hash && entry.key.borrow() == key;
        let entry = self.table.find_mut(spread(hash), is)?;
        Some(LockedEntry {
            slot: &mut entry.slot,
            state: &mut self.state,
            closed: self.closed,
        })
    }

    /// Inserts the entry of a key that has none.
    pub(super) fn insert(&mut self, entry: Entry<K, T>) -> LockedEntry<'_, T> {
        let hash = spread_of(&entry);
        let entry = self.table.insert_unique(hash, entry, spread_of).into_mut();
        LockedEntry {
            slot: &mut entry.slot,
            state: &mut self.state,
            closed: self.closed,
        }
    }

    /// Returns the limiters that the entries share with their waiters and holders.
    pub(super) fn limiters(&self) -> Vec<T::Limiter> {
        let slots = self.table.iter().map(|entry| &entry.slot);
        slots.filter_map(T::limiter).cloned().collect()
    }

    pub(super) fn remove(&mut self, bucket: usize) -> Option<Entry<K, T>> {
        let occupied = self.table.get_bucket_entry(bucket).ok()?;
        Some(occupied.remove().0)
    }

    /// Looks at the next entry, and returns its bucket if it is idle.
    pub(super) fn next_if_idle(&mut self, map: &T::MapState, now: Tick) -> Option<usize> {
        for _ in 0..BUCKETS_PER_SEARCH {
            let bucket = self.advance_hand();
            if let Some(entry) = self.table.get_bucket_mut(bucket) {
                #[cfg(test)]
                self.looked_at.push(T::hash(&entry.slot));
                let is_idle = T::is_idle(map, &self.state, &mut entry.slot, now);
                return is_idle.then_some(bucket);
            }
        }
        None
    }

    /// Looks at `entries` entries, and returns the bucket of the one that becomes idle first, and
    /// the nanoseconds until then.
    pub(super) fn find_soonest_idle(
        &mut self,
        map: &T::MapState,
        entries: usize,
        now: Tick,
    ) -> Option<(usize, u64)> {
        let (mut best, mut looked) = (None, 0);
        let soonest = self.soonest;
        let is_soonest = |entry: &Entry<K, T>| T::hash(&entry.slot) == soonest;
        let mut first = (self.table).find_bucket_index(spread(soonest), is_soonest);
        for _ in 0..BUCKETS_PER_SEARCH {
            let bucket = first.take().unwrap_or_else(|| self.advance_hand());
            let Some(entry) = self.table.get_bucket_mut(bucket) else {
                continue;
            };
            #[cfg(test)]
            self.looked_at.push(T::hash(&entry.slot));
            let after = T::idle_after(map, &self.state, &mut entry.slot, now);
            if let Some(after) = after.filter(|after| best.is_none_or(|(_, least)| *after < least))
            {
                self.soonest = T::hash(&entry.slot);
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
