//! Semaphores by key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate::{ErrorKind, Keyed, Quota};

use crate::support::{Waiter, kind};

#[test]
fn each_key_has_its_permits_and_its_queue() {
    let users = Keyed::<String, _>::semaphores(2);
    let (ann, bob) = (users.key("ann"), users.key("bob"));
    let held = ann.try_acquire_many(2).unwrap();
    let mut waiter = Waiter::parked(ann.acquire_many(2));
    assert_eq!(kind(ann.try_acquire()), ErrorKind::NoPermits);
    assert_eq!((ann.snapshot().waiting, bob.snapshot().waiting), (1, 0));
    assert_eq!((ann.snapshot().available, bob.snapshot().available), (0, 2));
    drop((bob.try_acquire().unwrap(), held));
    // A permit outlives the map.
    let permit = waiter.granted();
    drop(waiter);
    drop(users);
    assert_eq!(permit.count(), 2);
}

#[test]
fn key_in_use_is_not_evicted_and_a_new_one_is_refused() {
    let users = Keyed::<u32, _>::semaphores(1).max_keys(2);
    let one = users.key(&1).try_acquire().unwrap();
    let two = users.key(&2).try_acquire().unwrap();
    let mut waiter = Waiter::parked(users.key(&2).acquire());
    let refused = users.key(&3).try_acquire().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.retry_after()),
        (ErrorKind::TooManyKeys, None)
    );
    drop(two);
    assert_eq!(kind(users.key(&3).try_acquire()), ErrorKind::TooManyKeys);
    drop(one);
    let three = users.key(&3).try_acquire().unwrap();
    assert_eq!(kind(users.key(&3).try_acquire()), ErrorKind::NoPermits);
    drop(waiter.granted());
    drop(three);
    assert_eq!(users.len(), 2);
}

#[test]
fn idle_keys_make_room_for_new_ones() {
    let users = Keyed::<u32, _>::semaphores(1).max_keys(1000);
    for key in 0..10_000 {
        drop(users.key(&key).try_acquire().unwrap());
    }
    assert!(users.len() < 200, "{}", users.len());
    users.shrink();
    assert!(users.is_empty());
}

#[test]
fn requota_asks_for_the_permits_of_a_key_again() {
    let limit = Arc::new(AtomicUsize::new(1));
    let users = {
        let limit = Arc::clone(&limit);
        Keyed::<u32, _>::semaphores(7)
            .permits(move |key| limit.load(Ordering::Relaxed) * (*key as usize))
    };
    let one = users.key(&3).try_acquire_many(3).unwrap();
    assert_eq!(kind(users.key(&3).try_acquire()), ErrorKind::NoPermits);
    limit.store(2, Ordering::Relaxed);
    assert_eq!(kind(users.key(&3).try_acquire()), ErrorKind::NoPermits);
    users.requota(&3);
    let two = users.key(&3).try_acquire_many(3).unwrap();
    assert_eq!(kind(users.key(&3).try_acquire()), ErrorKind::NoPermits);
    limit.store(1, Ordering::Relaxed);
    users.requota_all();
    drop(two);
    assert_eq!(kind(users.key(&3).try_acquire()), ErrorKind::NoPermits);
    drop(one);
    drop(users.key(&3).try_acquire_many(3).unwrap());
    // A newcomer in the place of another has its own limit.
    drop(users.key(&5).try_acquire_many(5).unwrap());
    assert_eq!(
        kind(users.key(&2).try_acquire_many(3)),
        ErrorKind::ExceedsCapacity
    );
}

#[test]
fn retain_drops_only_keys_that_are_not_in_use() {
    let users = Keyed::<u32, _>::semaphores(1).max_keys(100);
    let held: Vec<_> = (0..50)
        .map(|key| users.key(&key).try_acquire().unwrap())
        .collect();
    let idle: Vec<_> = (50..90)
        .map(|key| users.key(&key).try_acquire().unwrap())
        .collect();
    drop(idle);
    users.retain(|key| *key >= 80);
    assert_eq!(users.len(), 60);
    drop(held);
    users.retain(|key| *key >= 80);
    assert_eq!(users.len(), 10);
}

#[test]
fn set_permits_of_all_keys_changes_held_waiting_and_new_ones() {
    let users = Keyed::<u32, _>::semaphores(1);
    // Before the first use as well.
    users.set_permits(2);
    let one = users.key(&1).try_acquire_many(2).unwrap();
    let mut waiter = Waiter::parked(users.key(&1).acquire_many(2));
    let two = users.key(&2).try_acquire_many(2).unwrap();
    users.set_permits(4);
    let granted = waiter.granted();
    assert_eq!(kind(users.key(&1).try_acquire()), ErrorKind::NoPermits);
    drop(users.key(&2).try_acquire_many(2).unwrap());
    drop(users.key(&3).try_acquire_many(4).unwrap());
    users.set_permits(1);
    drop((one, two));
    assert_eq!(kind(users.key(&1).try_acquire()), ErrorKind::NoPermits);
    drop(granted);
    for key in 1..5 {
        assert_eq!(users.key(&key).snapshot().limit, 1, "{key}");
        assert_eq!(users.key(&key).snapshot().available, 1, "{key}");
    }
}

#[test]
fn reject_impossible_refuses_what_waits_for_more_than_the_limit_of_its_key() {
    let users = Keyed::<u32, _>::semaphores(0);
    let waits = |key| [5, 1].map(|n| Waiter::parked(users.key(key).acquire_many(n)));
    let mut waiters = [waits(&1), waits(&2)];
    users.set_permits(2);
    for [large, small] in &mut waiters {
        assert!(large.is_pending() && small.is_pending());
    }
    users.reject_impossible();
    for [large, small] in &mut waiters {
        assert_eq!(kind(large.output()), ErrorKind::ExceedsCapacity);
        drop(small.granted());
    }
}

#[test]
fn set_permits_of_all_keys_keeps_those_with_their_own() {
    let users = Keyed::<u32, _>::semaphores(1).permits(|_| 3);
    let _held = users.key(&1).try_acquire().unwrap();
    users.set_permits(7);
    assert_eq!(users.key(&1).snapshot().limit, 3);
    assert_eq!(users.key(&2).snapshot().limit, 3);
}

#[test]
fn keys_are_those_in_use_and_the_map_may_be_used_meanwhile() {
    let users = Keyed::<u32, _>::semaphores(1);
    assert_eq!(users.keys().count(), 0);
    let held: Vec<_> = (0..50)
        .map(|key| users.key(&key).try_acquire().unwrap())
        .collect();
    drop(users.key(&50).try_acquire().unwrap());
    let mut seen = Vec::new();
    for key in users.keys() {
        // The same key, and a new one.
        assert!(users.key(&key).try_acquire().is_err());
        drop(users.key(&(key + 1000)).try_acquire().unwrap());
        users.shrink();
        seen.push(key);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
    drop(held);
    assert_eq!(users.keys().count(), 0);
}

#[test]
fn debug_after_a_change_shows_the_present_limit() {
    let hosts = Keyed::<u64, _>::semaphores(1);
    assert_eq!(
        format!("{hosts:?}"),
        "Keyed { permits: 1, max_keys: 100000, len: 0, .. }"
    );
    hosts.set_permits(5);
    assert!(format!("{hosts:?}").starts_with("Keyed { permits: 5,"));
    let users = Keyed::<u64, _>::rate_limiters(Quota::per_second(1));
    users.set_quota(Quota::per_second(7));
    assert!(format!("{users:?}").starts_with("Keyed { quota: 7/s,"));
}
