//! As many keys as there may be: which is evicted, which stays, and when a new one may come again.

use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};
use std::time::Duration;

use tollgate::{Clock, ErrorKind, ManualClock, Quota, RateLimiter, WhenFull};

use super::world::Users;
use crate::support::{Waiter, kind};

const SECOND: Duration = Duration::from_secs(1);

fn users(keys: usize, when_full: WhenFull) -> (Users, ManualClock) {
    let clock = Clock::manual();
    let quota = Quota::per_second(1).burst(4);
    let users = Users::new(RateLimiter::new(quota).clock(&clock))
        .max_keys(keys)
        .when_full(when_full);
    (users, clock)
}

#[test]
fn max_keys_is_how_many_there_is_room_for() {
    for keys in [1, 2, 63, 64, 65, 127, 1000, 4096, 10_000] {
        for _ in 0..3 {
            let (users, _clock) = users(keys, WhenFull::Reject);
            for key in 0..keys as u32 {
                users.key(&key).try_acquire().unwrap();
            }
            assert_eq!(users.len(), keys);
            let refused = users.key(&u32::MAX).try_acquire();
            assert_eq!(kind(refused), ErrorKind::TooManyKeys);
            assert_eq!(users.len(), keys);
        }
    }
}

#[test]
fn new_key_is_refused_until_the_first_it_looked_at_makes_room() {
    let (users, clock) = users(2, WhenFull::Reject);
    users.key(&1).try_acquire_many(4).unwrap();
    users.key(&2).try_acquire_many(2).unwrap();
    let refused = users.key(&3).try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(2 * SECOND));
    clock.advance(2 * SECOND - Duration::from_nanos(1));
    let refused = users.key(&3).try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_nanos(1)));
    clock.advance(Duration::from_nanos(1));
    users.key(&3).try_acquire().unwrap();
    assert_eq!(users.key(&1).snapshot().available, 2);
    assert_eq!(users.len(), 2);
}

/// A call that leaves no charge needs no entry, so it neither evicts a key nor lacks room.
#[test]
fn call_that_costs_nothing_or_is_never_admitted_evicts_nobody() {
    for when_full in [WhenFull::Reject, WhenFull::Evict] {
        let (users, _clock) = users(1, when_full);
        users.key(&1).try_acquire_many(4).unwrap();
        users.key(&2).try_acquire_many(0).unwrap();
        users.key(&2).acquire_many(0).wait().unwrap();
        let too_many = kind(users.key(&2).try_acquire_many(5));
        assert_eq!(too_many, ErrorKind::ExceedsCapacity);
        assert_eq!((users.len(), users.key(&1).snapshot().available), (1, 0));
    }
}

#[test]
fn calls_without_room_are_refused_and_leave_the_whole_burst() {
    let (users, clock) = users(1, WhenFull::Reject);
    users.key(&1).try_acquire().unwrap();
    assert_eq!(kind(users.key(&2).acquire().wait()), ErrorKind::TooManyKeys);
    assert_eq!(kind(users.key(&2).reserve()), ErrorKind::TooManyKeys);
    assert_eq!(kind(users.key(&2).charge(1)), ErrorKind::TooManyKeys);
    clock.advance(SECOND);
    users.key(&2).try_acquire_many(4).unwrap();
}

#[test]
fn evict_forgets_the_key_that_owes_least() {
    let (users, _clock) = users(2, WhenFull::Evict);
    users.key(&1).try_acquire_many(4).unwrap();
    users.key(&2).try_acquire_many(3).unwrap();
    users.key(&3).try_acquire_many(4).unwrap();
    assert_eq!(users.key(&1).snapshot().available, 0);
    assert_eq!(users.key(&2).snapshot().available, 4);
    assert_eq!(users.len(), 2);
}

#[test]
fn waiters_survive_the_eviction_of_everything_else() {
    for when_full in [WhenFull::Reject, WhenFull::Evict] {
        let (users, clock) = users(4, when_full);
        users.key(&0).try_acquire_many(4).unwrap();
        let mut first = Waiter::parked(users.key(&0).acquire());
        let mut second = Waiter::parked(users.key(&0).acquire());
        for key in 1..10_000 {
            let _ = users.key(&key).try_acquire_many(4);
        }
        assert_eq!(users.key(&0).snapshot().waiting, 2);
        assert_eq!(kind(users.key(&0).try_acquire()), ErrorKind::RateLimited);
        clock.advance(SECOND);
        assert_eq!(first.granted().at(), clock.now());
        assert!(second.is_pending());
        clock.advance(SECOND);
        assert_eq!(second.granted().at(), clock.now());
    }
}

#[test]
fn new_key_beside_keys_with_waiters_is_refused_whatever_was_chosen() {
    for when_full in [WhenFull::Reject, WhenFull::Evict] {
        let (users, clock) = users(2, when_full);
        let keys = [1, 2];
        let mut waiters = keys.each_ref().map(|key| {
            users.key(key).try_acquire_many(4).unwrap();
            Waiter::parked(users.key(key).acquire_many(4))
        });
        let refused = users.key(&3).try_acquire().unwrap_err();
        assert_eq!(
            (refused.kind(), refused.retry_after()),
            (ErrorKind::TooManyKeys, None)
        );
        // When they have been granted and all is paid off, their keys make room.
        clock.advance(4 * SECOND);
        for waiter in &mut waiters {
            waiter.granted();
        }
        clock.advance(4 * SECOND);
        drop(waiters);
        users.key(&3).try_acquire().unwrap();
        users.key(&4).try_acquire().unwrap();
        assert_eq!(users.len(), 2);
    }
}

#[test]
fn key_recovered_for_a_minute_makes_room_where_there_is_more() {
    let (users, clock) = users(1000, WhenFull::Reject);
    // The same in every run.
    let users = users.hasher(BuildHasherDefault::<DefaultHasher>::default());
    for key in 0..300 {
        users.key(&key).try_acquire().unwrap();
    }
    clock.advance(61 * SECOND);
    for key in 1000..1600 {
        users.key(&key).try_acquire().unwrap();
    }
    // Of the old ones hardly any are left.
    assert!((600..650).contains(&users.len()), "{}", users.len());
}

#[test]
fn shrink_drops_recovered_keys_and_retain_those_it_does_not_keep() {
    let (users, clock) = users(10_000, WhenFull::Reject);
    for key in 0..5000 {
        users
            .key(&key)
            .try_acquire_many(u64::from(1 + key % 2))
            .unwrap();
    }
    clock.advance(SECOND);
    let mut waiter = Waiter::parked(users.key(&1).acquire_many(4));
    users.shrink();
    assert_eq!(users.len(), 2500);
    users.retain(|key| key % 3 == 0);
    // 1 has somebody who waits.
    assert_eq!(
        users.len(),
        (0..5000).filter(|key| key % 6 == 3).count() + 1
    );
    for key in 0..5000 {
        let owes = key % 6 == 3;
        if key != 1 {
            assert_eq!(
                users.key(&key).snapshot().available,
                if owes { 3 } else { 4 }
            );
        }
    }
    clock.advance(SECOND);
    waiter.granted();
    users.retain(|_| false);
    clock.advance(4 * SECOND);
    users.shrink();
    assert!(users.is_empty());
    users.key(&1).try_acquire_many(4).unwrap();
}

#[test]
fn key_that_comes_again_after_retry_after_finds_room() {
    let (users, clock) = users(100, WhenFull::Reject);
    for key in 0..100 {
        users
            .key(&key)
            .try_acquire_many(u64::from(2 + key % 3))
            .unwrap();
        clock.advance(Duration::from_millis(1));
    }
    for newcomer in 100..150 {
        // Refusals of others meanwhile make no difference.
        for other in 1000..1010 {
            let _ = users.key(&other).try_acquire();
        }
        if let Err(refused) = users.key(&newcomer).try_acquire() {
            clock.advance(refused.retry_after().expect("nobody waits"));
            users.key(&newcomer).try_acquire_many(4).unwrap();
        }
    }
}

#[test]
fn retry_after_of_new_keys_only_shrinks() {
    let (users, _clock) = users(100, WhenFull::Reject);
    for key in 0..100 {
        let cost = if key == 50 { 1 } else { 4 };
        users.key(&key).try_acquire_many(cost).unwrap();
    }
    let mut soonest = Duration::MAX;
    for newcomer in 100..1000 {
        let refused = users.key(&newcomer).try_acquire().unwrap_err();
        let after = refused.retry_after().expect("nobody waits");
        assert!(after <= soonest);
        soonest = after;
    }
    assert_eq!(soonest, SECOND);
}

/// Hashes everything to the same.
#[derive(Default)]
struct Same;

impl Hasher for Same {
    fn finish(&self) -> u64 {
        7
    }

    fn write(&mut self, _: &[u8]) {}
}

#[test]
fn keys_with_equal_hashes_are_different_keys() {
    let clock = Clock::manual();
    let users = Users::new(RateLimiter::new(Quota::per_second(1).burst(100)).clock(&clock))
        .max_keys(60)
        .hasher(BuildHasherDefault::<Same>::default());
    for key in 0..60 {
        users
            .key(&key)
            .try_acquire_many(u64::from(key) + 1)
            .unwrap();
    }
    let mut waiters = [&5, &50].map(|key| Waiter::parked(users.key(key).acquire_many(100)));
    assert_eq!(kind(users.key(&60).try_acquire()), ErrorKind::TooManyKeys);
    for key in 0..60 {
        assert_eq!(
            users.key(&key).snapshot().waiting,
            usize::from(key == 5 || key == 50)
        );
        if key != 5 && key != 50 {
            assert_eq!(users.key(&key).snapshot().available, 99 - u64::from(key));
        }
    }
    clock.advance(100 * SECOND);
    for waiter in &mut waiters {
        waiter.granted();
    }
    clock.advance(100 * SECOND);
    drop(waiters);
    users.shrink();
    assert!(users.is_empty());
}
