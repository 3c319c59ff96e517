//! Buffers of records that are not counted yet: each has a table of a fixed size that sums up by
//! key, and a few threads share a buffer.
//!
//! 1. Recording never waits: it takes the lock of its own table or of the next one, and only if the
//!    lock is free. The lock is held to add to a table, or to exchange it for an empty one.
//! 2. A record is in exactly one place: in a table, or handed to the pass that
//!    [empties](Buffers::empty) it, or, if there was no room or no free lock, in the amount lost.
//! 3. A key that has a slot in a table loses records there only if a lock is not free, however many
//!    other keys are recorded. So nearly all lost records are of infrequent keys.

use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use std::thread::available_parallelism;

use crate::sync::{AtomicU64, Mutex, Ordering, lock, try_lock};

pub(crate) struct Buffers<K> {
    /// Their number is a power of two.
    stripes: Box<[Stripe<K>]>,
    lost: AtomicU64,
}

/// Aligned so that two processors do not contend for one cache line.
#[repr(align(128))]
struct Stripe<K>(Mutex<Table<K, u64>>);

/// The maximum number of stripes.
const MOST: usize = 64;

thread_local! {
    /// The stripe of a thread. `usize::MAX` until the thread records for the first time.
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The stripe of the next thread.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of stripes on this machine: the number of processors, rounded up to a power
/// of two.
pub(crate) fn stripes() -> usize {
    let processors = available_parallelism().map_or(1, usize::from);
    processors.clamp(1, MOST).next_power_of_two()
}

fn own() -> usize {
    // Thread-locals are gone while the thread is being torn down.
    OWN.try_with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed) % MOST);
        }
        own.get()
    })
    .unwrap_or(0)
}

impl<K: Clone + Eq> Buffers<K> {
    /// Creates buffers with room for `room` keys in each stripe.
    pub(crate) fn new(room: usize) -> Self {
        let stripe = || Stripe(Mutex::new(Table::new(room)));
        Self {
            stripes: (0..stripes()).map(|_| stripe()).collect(),
            lost: AtomicU64::new(0),
        }
    }

    /// Adds `n` to the records of a key.
    #[inline]
    pub(crate) fn add(&self, hash: u64, key: &K, n: u64) {
        let own = own();
        for stripe in [own, own + 1] {
            let stripe = &self.stripes[stripe & (self.stripes.len() - 1)];
            if let Some(mut table) = try_lock(&stripe.0) {
                if let Some(place) = table.find(hash, key) {
                    let recorded = table.value_mut(place);
                    *recorded = recorded.saturating_add(n);
                    return;
                }
                if !table.is_full() {
                    let key = key.clone();
                    table.insert(hash, key, n);
                    return;
                }
                break;
            }
        }
        self.lose(n);
    }

    #[cold]
    fn lose(&self, n: u64) {
        self.lost.fetch_add(n, Ordering::Relaxed);
    }

    /// Hands over the records, a stripe at a time. `spare` must be an empty table of the same size,
    /// and is empty again afterwards.
    pub(crate) fn empty(&self, spare: &mut Table<K, u64>, mut take: impl FnMut(u64, K, u64)) {
        for stripe in &self.stripes {
            let mut table = lock(&stripe.0);
            std::mem::swap(&mut *table, spare);
            drop(table);
            for place in spare.drain() {
                let hash = place.hash();
                take(hash, place.key, place.value);
            }
        }
    }

    /// Returns the amount that was lost since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

// A hash table of a fixed size: it allocates all its memory at the beginning, and reports when it
// is full.
//
// The slots are in one vector, in the order in which they were taken. An index over them, with
// linear probing, finds the slot of a key.
//
// 1. At most half of the index is used, so that each probe ends.
// 2. A key is found between the position of its hash and the first free entry: removing an entry
//    moves the entries behind it back, if the gap is in their probe sequence.

/// At most `capacity` keys, each with a `V`. Callers compute the hashes, and the table stores them:
/// it never calls `Hash` of a key.
pub(crate) struct Table<K, V> {
    places: Vec<Place<K, V>>,
    index: Box<[u32]>,
    capacity: usize,
}

pub(crate) struct Place<K, V> {
    hash: u64,
    pub(crate) key: K,
    pub(crate) value: V,
}

const FREE: u32 = u32::MAX;

/// The maximum number of slots, so that the index can number them.
pub(crate) const MAX_CAPACITY: usize = 1 << 24;

impl<K, V> Place<K, V> {
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

impl<K: Eq, V> Table<K, V> {
    /// Creates a table for `capacity` keys, at least 1 and at most [`MAX_CAPACITY`].
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            places: Vec::with_capacity(capacity),
            index: vec![FREE; (2 * capacity).next_power_of_two()].into_boxed_slice(),
            capacity,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.places.len() == self.capacity
    }

    pub(crate) fn places(&self) -> &[Place<K, V>] {
        &self.places
    }

    pub(crate) fn value_mut(&mut self, place: usize) -> &mut V {
        &mut self.places[place].value
    }

    /// Returns the slot of a key.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &K) -> Option<usize> {
        let mut entry = self.home(hash);
        loop {
            match self.index[entry] {
                FREE => return None,
                place => {
                    let there = &self.places[place as usize];
                    if there.hash == hash && there.key == *key {
                        return Some(place as usize);
                    }
                }
            }
            entry = self.after(entry);
        }
    }

    /// Inserts a key that is not in the table; the table must not be full.
    pub(crate) fn insert(&mut self, hash: u64, key: K, value: V) -> usize {
        let place = self.places.len();
        self.places.push(Place { hash, key, value });
        self.enter(hash, place);
        place
    }

    /// Gives a slot to a key that is not in the table, and returns the key that had it.
    pub(crate) fn replace(&mut self, place: usize, hash: u64, key: K) -> K {
        self.take_out(place);
        self.enter(hash, place);
        let there = &mut self.places[place];
        there.hash = hash;
        std::mem::replace(&mut there.key, key)
    }

    /// Removes all keys, and keeps the memory.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Place<K, V>> + '_ {
        self.index.fill(FREE);
        self.places.drain(..)
    }

    pub(crate) fn clear(&mut self) {
        drop(self.drain());
    }

    /// Returns the position where the search for a hash begins. The lower half of the hash is as
    /// good as all of it.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.index.len() - 1)
    }

    #[inline]
    fn after(&self, entry: usize) -> usize {
        (entry + 1) & (self.index.len() - 1)
    }

    fn enter(&mut self, hash: u64, place: usize) {
        let mut entry = self.home(hash);
        while self.index[entry] != FREE {
            entry = self.after(entry);
        }
        self.index[entry] = place as u32;
    }

    fn take_out(&mut self, place: usize) {
        let mut gap = self.home(self.places[place].hash);
        while self.index[gap] != place as u32 {
            gap = self.after(gap);
        }
        let mut entry = self.after(gap);
        while self.index[entry] != FREE {
            let home = self.home(self.places[self.index[entry] as usize].hash);
            let (way, back) = (self.steps(home, entry), self.steps(gap, entry));
            if back <= way {
                self.index[gap] = self.index[entry];
                gap = entry;
            }
            entry = self.after(entry);
        }
        self.index[gap] = FREE;
    }

    /// Returns the number of steps between two positions.
    fn steps(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.index.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::Table;

    /// A bad hash, so that many keys collide.
    fn hash(key: u8) -> u64 {
        u64::from(key % 7)
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(steps in prop::collection::vec((0_u8..40, 0_usize..16), 0..400)) {
            let mut table = Table::new(16);
            let mut map = HashMap::new();
            for (count, (key, place)) in steps.into_iter().enumerate() {
                match table.find(hash(key), &key) {
                    Some(place) => *table.value_mut(place) = count,
                    None if !table.is_full() => {
                        table.insert(hash(key), key, count);
                    }
                    None => {
                        let old = table.replace(place, hash(key), key);
                        *table.value_mut(place) = count;
                        prop_assert!(map.remove(&old).is_some());
                    }
                }
                map.insert(key, count);
                for key in 0..40 {
                    let found = table.find(hash(key), &key);
                    let value = found.map(|place| &table.places()[place].value);
                    prop_assert_eq!(value, map.get(&key));
                }
            }
            let drained: HashMap<_, _> =
                table.drain().map(|place| (place.key, place.value)).collect();
            prop_assert_eq!(drained, map);
            prop_assert_eq!(table.find(hash(3), &3), None);
        }
    }

    #[test]
    fn a_table_of_one_has_room_for_one() {
        let mut table = Table::new(1);
        table.insert(9, 'a', ());
        assert!(table.is_full());
        assert_eq!(table.replace(0, 9, 'b'), 'a');
        assert_eq!((table.find(9, &'a'), table.find(9, &'b')), (None, Some(0)));
    }
}
