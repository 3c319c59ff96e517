//! Foreign code: the places where it may call the map, and the state that it leaves when it panics.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tollgate::keyed::WhenFull;
use tollgate::{Clock, ErrorKind, Keyed, Quota, RateLimiter};

use crate::support::Waiter;
use crate::support::foreign::{calls_when_woken, panic_message};

type Map = Keyed<Noisy, RateLimiter>;

static MAP: OnceLock<Map> = OnceLock::new();

thread_local! {
    static EQUAL: Cell<bool> = const { Cell::new(false) };
    /// The action of keys when they are hashed, cloned and dropped.
    static CALLBACK: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// A key that calls back, and panics on request when it is compared.
#[derive(Debug)]
struct Noisy(u32);

/// Calls back, but not from inside a callback.
fn call_back() {
    if let Some(callback) = CALLBACK.take() {
        callback();
        CALLBACK.set(Some(callback));
    }
}

impl Hash for Noisy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        call_back();
        self.0.hash(state);
    }
}

impl PartialEq for Noisy {
    fn eq(&self, other: &Self) -> bool {
        assert!(!EQUAL.get(), "no key is equal");
        self.0 == other.0
    }
}

impl Eq for Noisy {}

impl Clone for Noisy {
    fn clone(&self) -> Self {
        call_back();
        Self(self.0)
    }
}

impl Drop for Noisy {
    fn drop(&mut self) {
        call_back();
    }
}

#[test]
fn key_may_use_the_map_when_it_is_hashed_cloned_and_dropped() {
    let clock = Clock::manual();
    let map = MAP.get_or_init(|| {
        // One shard.
        Map::new(RateLimiter::new(Quota::per_second(1)).clock(&clock))
            .max_keys(3)
            .when_full(WhenFull::Evict)
    });
    CALLBACK.set(Some(|| {
        let key = Noisy(u32::MAX);
        let _ = MAP.get().unwrap().key(&key).try_acquire();
        std::mem::forget(key);
    }));
    for key in 0..100 {
        map.key(&Noisy(key)).try_acquire().unwrap();
    }
    clock.advance(Duration::from_secs(1));
    for key in 100..200 {
        map.key(&Noisy(key)).try_acquire().unwrap();
    }
    assert_eq!(map.len(), 3);
}

#[test]
fn key_that_panics_when_it_is_compared_breaks_nothing() {
    let users = Keyed::<Noisy, _>::rate_limiters(Quota::per_hour(1)).max_keys(100);
    let slots = Keyed::<Noisy, _>::semaphores(1).max_keys(100);
    for key in 0..50 {
        users.key(&Noisy(key)).try_acquire().unwrap();
        drop(slots.key(&Noisy(key)).try_acquire().unwrap());
    }
    let before = users.len();
    EQUAL.set(true);
    for key in 0..50 {
        let message = panic_message(|| users.key(&Noisy(key)).try_acquire());
        assert_eq!(message.as_deref(), Some("no key is equal"));
    }
    let key = Noisy(49);
    assert!(panic_message(|| slots.key(&key).try_acquire()).is_some());
    EQUAL.set(false);
    assert_eq!(users.len(), before);
    for key in 0..50 {
        users.key(&Noisy(key)).try_acquire().unwrap_err();
    }
    users.key(&Noisy(50)).try_acquire().unwrap();
    drop(slots.key(&Noisy(49)).try_acquire().unwrap());
}

#[test]
fn retain_of_limiters_may_use_the_map_also_from_a_waker() {
    let clock = Clock::manual();
    let each = RateLimiter::new(Quota::per_second(1).burst(2)).clock(&clock);
    let users = Arc::new(Keyed::<u32, _>::new(each).max_keys(10));
    for key in 0..10 {
        let limiter = users.key(&key);
        limiter.try_acquire_many(1 + u64::from(key % 2)).unwrap();
    }
    users.retain(|key| {
        users.retain(|_| true);
        users.shrink();
        users.key(key).try_acquire().is_ok() && !users.is_empty()
    });
    assert_eq!(users.len(), 5);
    let mut waiter = Waiter::new(users.key(&0).acquire());
    let waker = calls_when_woken({
        let users = Arc::clone(&users);
        move || {
            let _ = users.key(&0).try_acquire();
            users.retain(|key| *key == 2 && users.key(key).try_acquire().is_ok());
        }
    });
    assert!(waiter.poll_with(&waker).is_pending());
    clock.advance(Duration::from_secs(1));
    waiter.granted();
    assert_eq!(users.len(), 2);
}

/// Keys that are in use by then are kept.
#[test]
fn retain_may_acquire_the_keys_that_it_drops() {
    let slots = Arc::new(Keyed::<u32, _>::semaphores(1).max_keys(10));
    let held = Mutex::new(Vec::new());
    drop([0, 1, 2].map(|key| slots.key(&key).try_acquire().unwrap()));
    slots.retain(|key| {
        held.lock()
            .unwrap()
            .push(slots.key(key).try_acquire().unwrap());
        false
    });
    assert_eq!(slots.len(), held.lock().unwrap().len());
}

/// A change of the quota wakes a waker that may read the quota, or set another one.
#[test]
fn waker_may_set_the_quota_that_wakes_it() {
    let clock = Clock::manual();
    let users = Keyed::<u32, _>::new(RateLimiter::new(Quota::per_hour(1)).clock(&clock));
    let users = Arc::new(users);
    let mut waiters = Vec::new();
    for key in 0..40 {
        users.key(&key).try_acquire().unwrap();
        let mut waiter = Waiter::new(Arc::clone(&users).key_owned(key).acquire());
        let waker = calls_when_woken({
            let users = Arc::clone(&users);
            move || {
                if users.quota() == Quota::per_second(2).burst(4) {
                    users.set_quota(Quota::per_second(1).burst(8));
                }
            }
        });
        assert!(waiter.poll_with(&waker).is_pending());
        waiters.push(waiter);
    }
    users.set_quota(Quota::per_second(2).burst(4));
    // The first woken waker sets another quota, under which others are due.
    clock.advance(Duration::from_secs(8));
    for (key, mut waiter) in (0..).zip(waiters) {
        waiter.granted();
        drop(waiter);
        assert_eq!(users.quota(), Quota::per_second(1).burst(8));
        assert_eq!(users.key(&key).quota(), users.quota(), "{key}");
        clock.advance(Duration::from_secs(8));
        assert_eq!(users.key(&key).snapshot().available, 8, "{key}");
    }
}

/// A key is hashed first, and cloned when it is to be inserted.
#[test]
fn key_inserted_after_a_close_that_came_meanwhile_is_refused() {
    static CLOSED: OnceLock<Map> = OnceLock::new();
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let users = CLOSED.get_or_init(|| Keyed::<Noisy, _>::rate_limiters(Quota::per_hour(1)));
    CALLBACK.set(Some(|| {
        if CALLS.fetch_add(1, Ordering::SeqCst) == 1 {
            CLOSED.get().unwrap().close();
        }
    }));
    let refused = users.key(&Noisy(1)).try_acquire().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    assert!(users.is_empty() && CALLS.load(Ordering::SeqCst) >= 2);
}

#[test]
fn set_permits_by_a_waker_that_the_last_change_wakes_counts_for_every_key() {
    let slots = Arc::new(Keyed::<u32, _>::semaphores(1));
    let held = [0, 1].map(|key| slots.key(&key).try_acquire().unwrap());
    let waker = calls_when_woken({
        let slots = Arc::clone(&slots);
        move || slots.set_permits(3)
    });
    let mut waits = [0, 1].map(|key| Waiter::new(Arc::clone(&slots).key_owned(key).acquire()));
    for wait in &mut waits {
        assert!(wait.poll_with(&waker).is_pending());
    }
    slots.set_permits(2);
    for key in [0, 1, 2] {
        assert_eq!(slots.key(&key).snapshot().limit, 3, "of {key}");
    }
    drop((held, waits));
}
