//! What only the inside can tell: how many entries a new key looks at, and which ones.

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use hashbrown::HashTable;

use super::contents::{Contents, Evictability, Slot};
use super::map::{Entry, Held, Map};
use super::{Keyed, Kind, WhenFull};
use crate::error::{AcquireError, ErrorKind};
use crate::time::Tick;
use crate::{Clock, Quota, RateLimiter};

/// Entries of which all can be evicted in the same way, and what was looked at.
struct Looked {
    evictability: Evictability,
    looked_at: RefCell<Vec<u32>>,
}

struct Hash(u32);

impl Slot for Hash {
    fn hash(&self) -> u32 {
        self.0
    }
}

impl Contents for Looked {
    type Key = u64;
    type Slot = Hash;
    type ShardState = ();
    type Asked = ();
    type Shared = ();
    type Leftover = ();

    fn shard_state(&self) {}

    fn ask(&self, _: &u64) {}

    fn slot(&self, (): &mut (), (): &(), hash: u32) -> Hash {
        Hash(hash)
    }

    fn evictability(&self, slot: &mut Hash, (): &(), _: Tick) -> Evictability {
        self.looked_at.borrow_mut().push(slot.0);
        self.evictability
    }

    fn tidy(&self, _: &mut HashTable<Entry<Self>>, (): &mut (), _: u32, _: Tick) {}

    fn too_many_keys(&self, _: Option<u64>) -> AcquireError {
        AcquireError::new(ErrorKind::TooManyKeys)
    }

    fn shared(_: &Hash) -> Option<()> {
        None
    }

    fn close((): ()) {}

    fn requota(&self, _: Held<'_, Self>, (): &(), _: Tick) {}

    fn reset((): (), (): &()) {}

    fn now(&self) -> Tick {
        Tick::default()
    }
}

type Looks = Map<Looked, BuildHasherDefault<DefaultHasher>>;

fn map(keys: usize, evictability: Evictability, when_full: WhenFull) -> Looks {
    let looked = Looked {
        evictability,
        looked_at: RefCell::default(),
    };
    Map::new(looked, BuildHasherDefault::default(), keys, when_full)
}

/// Brings a key, and returns how many entries it looked at.
fn bring(map: &Looks, key: u64) -> (bool, usize) {
    let before = map.contents.looked_at.borrow().len();
    let brought = map.with_entry(&key, Tick::default(), |()| None, |_| ());
    (
        brought.is_ok(),
        map.contents.looked_at.borrow().len() - before,
    )
}

#[test]
fn a_new_key_looks_at_no_more_than_six_entries() {
    for (evictability, when_full) in [
        (Evictability::InUse, WhenFull::Evict),
        (Evictability::IdleAfter(1), WhenFull::Evict),
        (Evictability::IdleAfter(1), WhenFull::Reject),
        (Evictability::Idle, WhenFull::Reject),
    ] {
        let map = map(1000, evictability, when_full);
        for key in 0..10_000 {
            let (_, looked) = bring(&map, key);
            assert!(looked <= 6, "{looked} with {}", map.len());
            // A key that is there looks at none.
            let there = map.copies().next().expect("there is one");
            assert_eq!(bring(&map, there), (true, 0));
        }
        assert!(map.len() <= 1000);
    }
}

#[test]
fn looks_leave_no_entry_out() {
    for keys in [1, 2, 3, 60, 1000] {
        let map = map(keys, Evictability::InUse, WhenFull::Evict);
        let mut new = 0..;
        while map.len() < keys {
            assert!(bring(&map, new.next().expect("endless")).0);
        }
        map.contents.looked_at.borrow_mut().clear();
        for _ in 0..10 * keys.max(100) {
            assert!(!bring(&map, new.next().expect("endless")).0);
        }
        let looked_at: HashSet<u32> = map.contents.looked_at.borrow().iter().copied().collect();
        let hashes: HashSet<u32> = map.copies().map(|key| map.hash(&key)).collect();
        assert_eq!(looked_at, hashes);
    }
}

#[test]
fn a_map_is_filled_to_its_last_place_and_gives_memory_back() {
    let map = map(10_000, Evictability::IdleAfter(1), WhenFull::Reject);
    for key in 0..10_000 {
        assert!(bring(&map, key).0);
    }
    assert_eq!(bring(&map, 10_000), (false, 3));
    (0..10_000).for_each(|key| map.remove(&key, Tick::default()));
    assert_eq!(map.len(), 0);
    map.shrink(Tick::default());
    let places: usize = map.each_shard().map(|shard| shard.table.capacity()).sum();
    assert_eq!(places, 0);
}

/// Each call that brings a key looks after one limiter, and after it again if it was needed then.
#[test]
fn limiters_that_were_needed_when_looked_after_are_reclaimed_later() {
    let clock = Clock::manual();
    let users = Keyed::<u64, _>::rate_limiters(Quota::per_second(1))
        .max_keys(60)
        .clock(&clock);
    let dedicated = || {
        let shards = users.map().each_shard();
        let count = |shard: super::map::Guard<'_, <RateLimiter as Kind>::Contents<u64>>| {
            let slots = shard.table.iter().map(|entry| &entry.slot);
            slots
                .filter_map(<RateLimiter as Kind>::Contents::<u64>::shared)
                .count()
        };
        shards.map(count).sum::<usize>()
    };
    let bring = |keys: std::ops::Range<u64>| {
        for key in keys {
            users.key(&key).try_acquire().unwrap();
        }
    };
    bring(1..3);
    let reserved = [1, 2].map(|key| users.key(&key).reserve().unwrap());
    bring(10..14);
    assert_eq!(dedicated(), 2);
    drop(reserved);
    clock.advance(Duration::from_secs(10));
    bring(20..24);
    assert_eq!(dedicated(), 0);
}
