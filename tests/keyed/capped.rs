//! As many keys as there may be: which is evicted, which stays, and when a new one may come again.

use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};
use std::time::Duration;

use tollgate::{Clock, ErrorKind, ManualClock, Quota, RateLimiter};

use super::world::Users;
use crate::support::{Waiter, kind};

const SECOND: Duration = Duration::from_secs(1);

fn users(keys: usize) -> (Users, ManualClock) {
    let clock = Clock::manual();
    let quota = Quota::per_second(1).burst(4);
    let users = Users::new(RateLimiter::new(quota).clock(&clock)).max_keys(keys);
    (users, clock)
}

#[test]
fn max_keys_is_how_many_there_is_room_for() {
    for keys in [1, 2, 63, 64, 65, 127, 1000, 4096, 10_000] {
        for _ in 0..3 {
            let (users, _clock) = users(keys);
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
fn key_recovered_for_a_minute_makes_room_where_there_is_more() {
    let (users, clock) = users(1000);
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
fn key_that_comes_again_after_retry_after_finds_room() {
    let (users, clock) = users(100);
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
    let (users, _clock) = users(100);
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
