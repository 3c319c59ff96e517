//! Quotas of single keys, and of all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tollgate::{Clock, Keyed, Quota, RateLimiter};

use super::world::Users;
use crate::support::Waiter;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn requota_asks_for_the_quota_of_a_key_again() {
    let (clock, burst) = (Clock::manual(), Arc::new(AtomicU64::new(4)));
    let users = {
        let burst = Arc::clone(&burst);
        Users::new(RateLimiter::new(Quota::per_hour(1)).clock(&clock)).quotas(move |_| {
            let burst = burst.load(Ordering::Relaxed);
            Quota::per_second(burst).burst(burst)
        })
    };
    let user = users.key(&1);
    user.try_acquire_many(2).unwrap();
    burst.store(8, Ordering::Relaxed);
    assert_eq!(user.snapshot().available, 2);
    users.requota(&1);
    assert_eq!(user.snapshot().available, 4);
    assert_eq!(user.quota(), Quota::per_second(8).burst(8));
    user.try_acquire_many(4).unwrap();
    // Also for who waits.
    let mut waiter = Waiter::parked(user.acquire_many(4));
    burst.store(16, Ordering::Relaxed);
    users.requota(&1);
    clock.advance(SECOND / 4);
    waiter.granted();
}

#[test]
fn quota_is_asked_for_under_no_lock() {
    static USERS: OnceLock<Users> = OnceLock::new();
    let users = USERS.get_or_init(|| {
        Users::rate_limiters(Quota::per_second(1))
            .max_keys(1)
            .quotas(|key| {
                if *key > 0 {
                    // The same shard, as there is only one.
                    let _ = USERS
                        .get()
                        .map(|users| users.key(&(*key - 1)).try_acquire());
                }
                Quota::per_second(1)
            })
    });
    let _ = users.key(&3).try_acquire();
    assert_eq!(users.len(), 1);
}

#[test]
fn set_quota_for_all_keeps_what_was_spent_in_proportion() {
    let clock = Clock::manual();
    let users = Users::new(RateLimiter::new(Quota::per_second(4).burst(4)).clock(&clock));
    let spent = users.key(&1).try_acquire_many(2).unwrap();
    users.key(&2).try_acquire_many(4).unwrap();
    let mut waiter = Waiter::parked(users.key(&2).acquire_many(4));
    users.set_quota(Quota::per_second(8).burst(8));
    assert_eq!(users.quota(), Quota::per_second(8).burst(8));
    assert_eq!(users.key(&1).snapshot().available, 4);
    assert_eq!(users.key(&3).snapshot().available, 8);
    // Charges from before cannot be refunded.
    users.key(&1).refund(spent);
    assert_eq!(users.key(&1).snapshot().available, 4);
    clock.advance(SECOND / 2);
    waiter.granted();
}

#[test]
fn keys_are_those_with_a_debt_or_a_waiter() {
    let clock = Clock::manual();
    let users = Users::new(RateLimiter::new(Quota::per_second(1).burst(2)).clock(&clock));
    users.key(&1).try_acquire().unwrap();
    users.key(&2).try_acquire_many(2).unwrap();
    let mut waiter = Waiter::parked(users.key(&2).acquire_many(2));
    let keys = || {
        let mut keys: Vec<_> = users.keys().collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys(), [1, 2]);
    clock.advance(SECOND);
    assert_eq!(keys(), [2]);
    clock.advance(SECOND);
    waiter.granted();
    clock.advance(2 * SECOND);
    assert_eq!((users.keys().count(), users.len()), (0, 2));
}

#[test]
fn keys_after_time_has_passed_leaves_out_those_that_have_recovered() {
    let clock = Clock::manual();
    let users = Users::new(RateLimiter::new(Quota::per_second(1)).clock(&clock));
    (0..1000).for_each(|user| drop(users.key(&user).try_acquire()));
    let mut keys = users.keys();
    let user = keys.next().unwrap();
    let rest_of_its_shard = keys.size_hint().0;
    clock.advance(SECOND);
    users.key(&user).try_acquire().unwrap();
    assert_eq!(keys.count(), rest_of_its_shard);
}

#[test]
fn map_in_a_static_is_ready_at_once() {
    static USERS: Keyed<u64, RateLimiter> = Keyed::<u64, _>::rate_limiters(Quota::per_day(1));
    assert!(USERS.is_empty());
    USERS.key(&7).try_acquire().unwrap();
    USERS.key(&7).try_acquire().unwrap_err();
    assert_eq!(USERS.len(), 1);
    assert!(format!("{USERS:?}").contains("max_keys: 100000"));
}

/// Keys that are moved when the table grows take their quotas, and their queues, with them.
#[test]
fn every_key_keeps_its_quota_when_the_map_is_full() {
    let clock = Clock::manual();
    let users = Users::new(RateLimiter::new(Quota::per_second(1)).clock(&clock))
        .max_keys(2000)
        .quotas(|key| Quota::per_second(1 + u64::from(*key)).burst(1 + u64::from(*key)));
    let users = Arc::new(users);
    let mut waiters = Vec::new();
    for key in 0..2000 {
        let user = users.key(&key);
        user.try_acquire_many(1 + u64::from(key)).unwrap();
        if key % 50 == 0 {
            waiters.push(Waiter::parked(Arc::clone(&users).key_owned(key).acquire()));
        }
    }
    clock.advance(SECOND / 2);
    for key in 0..2000 {
        let waiting = usize::from(key == 0);
        assert_eq!(users.key(&key).snapshot().waiting, waiting, "{key}");
        let granted = u64::from(key % 50 == 0 && key > 0);
        let expected = u64::from(key).div_ceil(2) - granted;
        let available = users.key(&key).snapshot().available;
        assert_eq!(available, expected, "{key}");
    }
    clock.advance(SECOND / 2);
    for waiter in &mut waiters {
        waiter.granted();
    }
}

/// The clock goes on while the quota of a key is asked for, and another call may come first: then
/// the key is charged when it is there, not when it was asked for.
#[test]
fn try_acquire_of_a_key_that_came_and_went_meanwhile_is_charged_now() {
    let clock = Clock::manual();
    let users: Arc<OnceLock<Keyed<u32, RateLimiter>>> = Arc::default();
    let asked = AtomicBool::new(false);
    let quotas = {
        let (users, clock) = (Arc::downgrade(&users), clock.clone());
        move |key: &u32| {
            if !asked.swap(true, Ordering::Relaxed) {
                let users = users.upgrade().unwrap();
                let users = users.get().unwrap();
                clock.advance(Duration::from_millis(100));
                users.key(key).try_acquire().unwrap();
                clock.advance(Duration::from_secs(1));
                users.shrink();
            }
            Quota::per_second(1)
        }
    };
    let map = Keyed::new(RateLimiter::new(Quota::per_second(1)).clock(&clock)).quotas(quotas);
    assert!(users.set(map).is_ok());
    let charge = users.get().unwrap().key(&1).try_acquire().unwrap();
    assert_eq!(charge.at().as_nanos(), 1_100_000_000);
}
