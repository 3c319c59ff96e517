//! Tests that need private access: how many entries a new key looks at, and which ones.

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

use super::map::Map;
use super::shard::Contents;
use super::{Keyed, WhenFull};
use crate::time::Tick;
use crate::{Algorithm, Clock, Quota, RateLimiter};

/// Entries that all become idle after the same time, and the entries that were looked at.
struct Looked {
    idle_after: Option<u64>,
    looked_at: RefCell<Vec<u32>>,
}

impl Contents for Looked {
    type Slot = u32;
    type ShardState = ();
    type Setting = ();
    type Own = ();
    type Limiter = ();

    fn hash(slot: &u32) -> u32 {
        *slot
    }

    fn shard_state(&self) {}

    fn convert(&self, (): ()) {}

    fn slot(&self, (): &mut (), _: Option<&()>, hash: u32) -> u32 {
        hash
    }

    fn limiter(_: &u32) -> Option<&Arc<()>> {
        None
    }

    fn idle_after(&self, slot: &mut u32, (): &(), _: Tick) -> Option<u64> {
        self.looked_at.borrow_mut().push(*slot);
        self.idle_after
    }
}

type Looks = Map<u64, Looked, BuildHasherDefault<DefaultHasher>>;

fn map(keys: usize, idle_after: Option<u64>, when_full: WhenFull) -> Looks {
    let looked = Looked {
        idle_after,
        looked_at: RefCell::default(),
    };
    let hasher = BuildHasherDefault::default();
    Map::new(looked, None, hasher, keys, when_full)
}

/// Uses a key, and returns how many entries it looked at.
fn bring(map: &Looks, key: u64) -> (bool, usize) {
    let before = map.contents.looked_at.borrow().len();
    let brought = map.with_entry(&key, map.hash(&key), |(), _| None, |_, _| ());
    (
        brought.is_ok(),
        map.contents.looked_at.borrow().len() - before,
    )
}

#[test]
fn a_new_key_looks_at_no_more_than_six_entries() {
    for (idle_after, when_full) in [
        (None, WhenFull::Evict),
        (Some(1), WhenFull::Evict),
        (Some(1), WhenFull::Reject),
        (Some(0), WhenFull::Reject),
    ] {
        let map = map(1000, idle_after, when_full);
        for key in 0..10_000 {
            let (_, looked) = bring(&map, key);
            assert!(looked <= 6, "{looked} with {}", map.len());
            // A key that is present looks at no entry.
            let there = map.copies(|_, _, _| true).next().expect("there is one");
            assert_eq!(bring(&map, there), (true, 0));
        }
        assert!(map.len() <= 1000);
    }
}

#[test]
fn looks_leave_no_entry_out() {
    for keys in [1, 2, 3, 60, 1000] {
        let map = map(keys, None, WhenFull::Evict);
        let mut new = 0..;
        while map.len() < keys {
            assert!(bring(&map, new.next().expect("endless")).0);
        }
        map.contents.looked_at.borrow_mut().clear();
        for _ in 0..10 * keys.max(100) {
            assert!(!bring(&map, new.next().expect("endless")).0);
        }
        let looked_at: HashSet<u32> = map.contents.looked_at.borrow().iter().copied().collect();
        let hashes: HashSet<u32> = map
            .copies(|_, _, _| true)
            .map(|key| map.hash(&key))
            .collect();
        assert_eq!(looked_at, hashes);
    }
}

#[test]
fn a_map_is_filled_to_its_last_place_and_gives_memory_back() {
    let map = map(10_000, Some(1), WhenFull::Reject);
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

/// Each new key takes the place of one that is idle, long before the map is full.
#[test]
fn keys_that_come_and_go_do_not_grow_a_map_with_room() {
    let map = map(1_000_000, Some(0), WhenFull::Reject);
    for key in 0..100_000 {
        assert!(bring(&map, key).0);
    }
    let shards = map.each_shard().count();
    let places: usize = map.each_shard().map(|shard| shard.table.capacity()).sum();
    // The smallest table has three places, and one in eight is kept free.
    assert!(
        map.len() <= shards && places <= 14 * shards,
        "{places} in {shards} shards"
    );
}

/// Returns how many keys have limiters of their own, and how many hashes are in the lists of these.
fn dedicated(users: &Keyed<u64, RateLimiter>) -> (usize, usize) {
    let mut counts = (0, 0);
    for shard in users.map().each_shard() {
        counts.0 += shard.limiters().len();
        counts.1 += shard.state.with_limiters.len();
    }
    counts
}

/// Each call that inserts a key checks two limiters, and checks them again if they were needed
/// then.
#[test]
fn limiters_that_were_needed_when_looked_after_are_reclaimed_later() {
    let clock = Clock::manual();
    let each = RateLimiter::new(Quota::per_second(1)).clock(&clock);
    let users = Keyed::<u64, _>::new(each).max_keys(60);
    let bring = |keys: std::ops::Range<u64>| {
        for key in keys {
            users.key(&key).try_acquire().unwrap();
        }
    };
    bring(1..3);
    let reserved = [1, 2].map(|key| users.key(&key).reserve().unwrap());
    bring(10..14);
    assert_eq!(dedicated(&users), (2, 2));
    drop(reserved);
    clock.advance(Duration::from_secs(10));
    bring(20..24);
    assert_eq!(dedicated(&users), (0, 0));
}

/// A key that waits again and again, beside one that waits all the time: it used to be listed again
/// each time.
#[test]
fn a_key_that_waits_again_is_listed_once() {
    let clock = Clock::manual();
    let each = RateLimiter::new(Quota::per_second(1)).clock(&clock);
    let users = Keyed::<u64, _>::new(each).max_keys(60);
    users.key(&0).charge(1_000_000).unwrap();
    let _stays = users.key(&0).reserve().unwrap();
    for _ in 0..100 {
        drop(users.key(&1).reserve().unwrap());
        assert_eq!(dedicated(&users), (2, 2));
    }
}

/// More than the burst is then owed, as if the clock had been set back.
#[test]
fn a_key_that_is_refused_after_a_lower_quota_gets_no_limiter() {
    let each = RateLimiter::new(Quota::per_minute(100))
        .algorithm(Algorithm::FixedWindow)
        .clock(Clock::manual());
    let users = Keyed::<u64, _>::new(each);
    users.key(&1).try_acquire_many(100).unwrap();
    users.set_quota(Quota::per_minute(10));
    let refused = users.key(&1).try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(600)));
    assert_eq!(dedicated(&users), (0, 0));
}

/// The lists do not grow when keys are evicted while they have limiters.
#[test]
fn evicted_keys_are_taken_off_the_list() {
    let clock = Clock::manual();
    let each = RateLimiter::new(Quota::per_second(1)).clock(&clock);
    let users = Keyed::<u64, _>::new(each).max_keys(4);
    for key in 0..1000 {
        users.key(&key).try_acquire().unwrap();
        drop(users.key(&key).reserve().unwrap());
        clock.advance(Duration::from_secs(10));
        let (dedicated, with_limiters) = dedicated(&users);
        assert!(
            dedicated <= 4 && with_limiters <= 8,
            "{dedicated} and {with_limiters}"
        );
    }
}
