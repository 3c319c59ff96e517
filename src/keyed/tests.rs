//! Tests that need private access: how many entries a new key looks at, and which ones.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::kind::LockedEntry;
use super::{Keyed, Kind, WhenFull};
use crate::rate::QuotaChange;
use crate::time::{ManualClock, Tick};
use crate::{Algorithm, Clock, Quota, RateLimiter, Semaphore};

type Limits<T> = Keyed<u64, T, BuildHasherDefault<DefaultHasher>>;

/// A map whose keys are never idle.
fn in_use(keys: usize) -> Limits<Semaphore> {
    let permits = Semaphore::MAX_PERMITS;
    Keyed::semaphores(permits)
        .max_keys(keys)
        .hasher(BuildHasherDefault::default())
}

/// A map whose keys are idle after a second.
fn idle_later(keys: usize, when_full: WhenFull, clock: &ManualClock) -> Limits<RateLimiter> {
    let quota = Quota::per_second(1).burst(1 << 20);
    let limits = Keyed::new(RateLimiter::new(quota).clock(clock));
    let limits = limits.max_keys(keys).when_full(when_full);
    limits.hasher(BuildHasherDefault::default())
}

fn looked_at<T: Kind>(limits: &Limits<T>) -> Vec<u32> {
    let shards = limits.map().each_shard();
    shards.flat_map(|shard| shard.looked_at.clone()).collect()
}

/// Uses a key for good, and returns whether it was admitted, and how many entries it looked at.
fn bring<T: Kind>(limits: &Limits<T>, key: u64) -> (bool, usize) {
    limits
        .map()
        .each_shard()
        .for_each(|mut shard| shard.looked_at.clear());
    let admitted = limits.key(&key).try_acquire().map(std::mem::forget);
    (admitted.is_ok(), looked_at(limits).len())
}

fn places<T: Kind>(limits: &Limits<T>) -> usize {
    let shards = limits.map().each_shard();
    shards.map(|shard| shard.table.capacity()).sum()
}

fn assert_looks_are_few<T: Kind>(limits: &Limits<T>, between: impl Fn()) {
    for key in 0..10_000 {
        let (_, looked) = bring(limits, key);
        assert!(looked <= 6, "{looked} with {}", limits.len());
        // A key that is present looks at no entry.
        let there = limits.map().copies(|_, _, _| true).next();
        assert_eq!(bring(limits, there.expect("there is one")), (true, 0));
        between();
    }
    assert!(limits.len() <= 1000);
}

#[test]
fn a_new_key_looks_at_no_more_than_six_entries() {
    assert_looks_are_few(&in_use(1000), || ());
    let clock = Clock::manual();
    for when_full in [WhenFull::Evict, WhenFull::Reject] {
        let limits = idle_later(1000, when_full, &clock);
        assert_looks_are_few(&limits, || ());
        let limits = idle_later(1000, when_full, &clock);
        assert_looks_are_few(&limits, || clock.advance(Duration::from_secs(1)));
    }
}

#[test]
fn looks_leave_no_entry_out() {
    for keys in [1, 2, 3, 60, 1000] {
        let limits = in_use(keys);
        let mut new = 0..;
        while limits.len() < keys {
            assert!(bring(&limits, new.next().expect("endless")).0);
        }
        let mut looked = HashSet::new();
        for _ in 0..10 * keys.max(100) {
            assert!(!bring(&limits, new.next().expect("endless")).0);
            looked.extend(looked_at(&limits));
        }
        let map = limits.map();
        let keys = map.copies(|_, _, _| true);
        let hashes: HashSet<u32> = keys.map(|key| map.hash(&key)).collect();
        assert_eq!(looked, hashes);
    }
}

#[test]
fn a_map_is_filled_to_its_last_place_and_gives_memory_back() {
    let limits = idle_later(10_000, WhenFull::Reject, &Clock::manual());
    for key in 0..10_000 {
        assert!(bring(&limits, key).0);
    }
    assert_eq!(bring(&limits, 10_000), (false, 3));
    let map = limits.map();
    (0..10_000).for_each(|key| map.remove(&key, Tick::default()));
    assert_eq!(map.len(), 0);
    map.shrink(Tick::default());
    assert_eq!(places(&limits), 0);
}

/// Each new key takes the place of one that is idle, long before the map is full.
#[test]
fn keys_that_come_and_go_do_not_grow_a_map_with_room() {
    let clock = Clock::manual();
    let limits = idle_later(1_000_000, WhenFull::Reject, &clock);
    for key in 0..100_000 {
        assert!(bring(&limits, key).0);
        clock.advance(Duration::from_secs(61));
    }
    let (shards, places) = (limits.map().each_shard().count(), places(&limits));
    // The smallest table has three places, and one in eight is kept free.
    assert!(
        limits.len() <= shards && places <= 14 * shards,
        "{places} in {shards} shards"
    );
}

/// Returns how many keys have limiters of their own, and how many hashes are in the lists of these.
fn dedicated<S>(users: &Keyed<u64, RateLimiter, S>) -> (usize, usize) {
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

/// A change of the quota of all keys sets a limiter under no lock, and perhaps before it visits the shard: then the
/// limiter counts in other units than the shard.
#[test]
fn limiter_that_a_change_holds_or_has_set_is_reclaimed_after_the_change() {
    let clock = Clock::manual();
    let each = RateLimiter::new(Quota::per_second(1)).clock(&clock);
    let users = Keyed::<u64, _>::new(each).max_keys(60);
    let newer = Quota::per_second(1000).burst(1000);
    drop(users.key(&1).reserve().unwrap());
    clock.advance(Duration::from_secs(10));
    let mut shards = users.map().each_shard();
    let limiter = shards.find_map(|shard| shard.limiters().pop());
    drop(shards);
    let limiter = limiter.expect("key 1 has one");

    users.key(&2).try_acquire().unwrap();
    assert_eq!(dedicated(&users), (1, 1));
    limiter.set_quota(newer);
    drop(limiter);
    users.key(&3).try_acquire().unwrap();
    assert_eq!(dedicated(&users), (1, 1));
    users.set_quota(newer);
    users.key(&4).try_acquire().unwrap();
    assert_eq!(dedicated(&users), (0, 0));
    let snapshot = users.key(&1).snapshot();
    assert_eq!((snapshot.limit, snapshot.available), (1000, 1000));
}

/// A hasher that hashes everything to the same value.
#[derive(Default)]
struct Same;

impl Hasher for Same {
    fn finish(&self) -> u64 {
        7
    }

    fn write(&mut self, _: &[u8]) {}
}

#[test]
fn limiters_of_keys_with_equal_hashes_are_all_reclaimed() {
    let clock = Clock::manual();
    let each = RateLimiter::new(Quota::per_second(1)).clock(&clock);
    let users = Keyed::<u64, _>::new(each)
        .max_keys(60)
        .hasher(BuildHasherDefault::<Same>::default());
    clock.advance(Duration::from_secs(100));
    for key in [1, 2] {
        users.key(&key).try_acquire().unwrap();
        drop(users.key(&key).reserve().unwrap());
    }
    assert_eq!(dedicated(&users), (2, 1));
    clock.advance(Duration::from_secs(10));
    for key in 10..12 {
        users.key(&key).try_acquire().unwrap();
    }
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

/// A backlog beyond the burst means that the clock was set back, unless a lower quota made it so.
#[test]
fn is_ahead_of_with_a_backlog_beyond_a_lowered_burst_is_false() {
    let now = Tick::from_nanos(100_000_000_000);
    for has_quotas in [false, true] {
        let clock = Clock::manual();
        clock.advance(now.saturating_since(Tick::default()));
        let quota = |burst| Quota::per_second(1).burst(burst);
        let users = Keyed::<u64, _>::new(RateLimiter::new(quota(100)).clock(&clock))
            .quota_change(QuotaChange::KeepSpent);
        let burst = Arc::new(AtomicU64::new(100));
        let burst_of = Arc::clone(&burst);
        let users = if has_quotas {
            users.quotas(move |_| quota(burst_of.load(Ordering::Relaxed)))
        } else {
            users
        };
        let is_ahead_of = |key, tick| {
            let read = |entry: LockedEntry<'_, RateLimiter>| {
                let word = entry.slot.word(entry.state).expect("a word");
                word.is_ahead_of(tick)
            };
            users.key(&key).read(read).expect("an entry")
        };
        users.key(&1).try_acquire_many(100).unwrap();
        let before = Tick::from_nanos(now.as_nanos() - 1);
        assert!(!is_ahead_of(1, now) && is_ahead_of(1, before));

        burst.store(10, Ordering::Relaxed);
        users.requota(&1);
        users.set_quota(quota(10));
        assert!(!is_ahead_of(1, now) && !is_ahead_of(1, before));
        assert_eq!(users.key(&1).snapshot().in_use, 100);
        clock.advance(Duration::from_secs(200));
        users.key(&2).try_acquire_many(10).unwrap();
        assert!(is_ahead_of(2, now));
    }
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
