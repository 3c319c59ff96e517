//! Models keys with two threads, on a manual clock: inserted, evicted, decided, promoted and taken back.

#![cfg(tollgate_loom)]

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tollgate::keyed::WhenFull::{Evict, Reject};
use tollgate::keyed::{Key, WhenFull};
use tollgate::time::ManualClock;
use tollgate::wait::Waiting;
use tollgate::{ErrorKind, Keyed, Quota, RateLimiter, Semaphore, Throttle};
use tollgate_loom::*;

/// A hasher that is the same in every run, unlike the default one.
type Hashing = BuildHasherDefault<DefaultHasher>;

type Users = Keyed<u32, RateLimiter, Hashing>;
type Slots = Keyed<u32, Semaphore, Hashing>;
type Wait = Waiting<<Key<'static, RateLimiter, u32, Hashing> as Throttle>::Enter>;

/// Returns limits of one per second for each of `max_keys` keys, on a clock of their own.
fn users(max_keys: usize, when_full: WhenFull) -> (Arc<Users>, ManualClock) {
    let clock = clock();
    let each = RateLimiter::new(Quota::per_second(1)).clock(&clock);
    let users = Keyed::<u32, _>::new(each).max_keys(max_keys);
    let users = users.when_full(when_full).hasher(Hashing::default());
    // The map is created at the first use, by an `OnceLock`, which loom does not know.
    assert_eq!(users.key(&0).snapshot().available, 1);
    (Arc::new(users), clock)
}

/// Returns the same for two keys, with a charge for the first.
fn one_of_two() -> (Arc<Users>, ManualClock) {
    let (users, clock) = users(2, Reject);
    users.key(&1).try_acquire().unwrap();
    (users, clock)
}

fn slots(max_keys: usize) -> Arc<Slots> {
    let slots = Keyed::<u32, _>::semaphores(1).max_keys(max_keys);
    let slots = slots.hasher(Hashing::default());
    assert_eq!(slots.key(&0).snapshot().available, 1);
    Arc::new(slots)
}

fn admits(users: &Users, key: u32) -> bool {
    users.key(&key).try_acquire().is_ok()
}

/// Starts a call for the first key in a thread.
fn admitting(users: &Arc<Users>) -> JoinHandle<bool> {
    with(users, |users| admits(users, 1))
}

/// Returns a wait for the first key.
fn wait(users: &Arc<Users>) -> Wait {
    Arc::clone(users).key_owned(1).acquire()
}

/// Asserts that one of two calls for new keys is refused, since there is no place for both.
fn assert_one_rejected(
    one: Result<(), tollgate::AcquireError>,
    other: Result<(), tollgate::AcquireError>,
) {
    assert!(one.is_ok() != other.is_ok());
    assert_eq!(kind(one.and(other)), Some(ErrorKind::TooManyKeys));
}

// The tick of one call must not be older than the charge of the other.
model!(tries_while_time_passes_admit_all_that_fit, || {
    let clock = clock();
    let each = RateLimiter::new(Quota::per_second(1).burst(2)).clock(&clock);
    let users = Arc::new(Keyed::<u32, _>::new(each).hasher(Hashing::default()));
    assert_eq!(users.key(&0).snapshot().available, 2);
    let trying = with(&users, move |users| {
        clock.advance(Duration::from_nanos(1));
        users.key(&1).try_acquire().unwrap();
    });
    users.key(&1).try_acquire().unwrap();
    join_all([trying]);
    assert!(users.key(&1).try_acquire().is_err());
});

model!(of_two_who_bring_the_same_key_one_is_admitted, || {
    let (users, _clock) = users(2, Reject);
    let other = admitting(&users);
    let mine = admits(&users, 1);
    assert!(mine != other.join().unwrap());
    assert_eq!(users.len(), 1);
});

model!(of_two_new_keys_and_one_place_one_is_refused, || {
    let (users, _clock) = users(1, Reject);
    let other = with(&users, |users| users.key(&1).try_acquire().map(drop));
    let mine = users.key(&2).try_acquire().map(drop);
    let other = other.join().unwrap();
    assert_one_rejected(mine, other);
    assert_eq!(users.len(), 1);
});

model!(evicted_key_is_not_used_any_more, || {
    let (users, _clock) = users(1, Evict);
    users.key(&1).try_acquire().unwrap();
    let other = with(&users, |users| users.key(&2).try_acquire().unwrap());
    // The key was evicted, or not yet. If it was, it is a new key itself.
    let again = users.key(&1).try_acquire();
    join_all([other]);
    assert_eq!(users.len(), 1);
    let owes = users.key(&2).snapshot().available == 0;
    assert!(owes || again.is_ok());
});

model!(joiner_and_an_eviction_do_not_miss_each_other, || {
    let (users, clock) = users(1, Evict);
    users.key(&1).try_acquire().unwrap();
    let other = with(&users, |users| users.key(&2).try_acquire().map(drop));
    let joined = Waiter::new(wait(&users)).join();
    let evicted = other.join().unwrap();
    match joined {
        // The key is pinned, so the other one was refused.
        Err(waiter) => {
            assert_eq!(kind(evicted), Some(ErrorKind::TooManyKeys));
            clock.advance(SECOND);
            assert_eq!(waiter.output().unwrap().at(), clock.now());
        }
        Ok(_) => evicted.unwrap(),
    }
    assert_eq!(users.len(), 1);
});

model!(try_and_a_limiter_that_is_taken_back_lose_nothing, || {
    let (users, clock) = one_of_two();
    let waiter = Waiter::queued(wait(&users));
    clock.advance(SECOND);
    waiter.output().unwrap();
    clock.advance(SECOND);
    // All charges are paid off, and the limiter is unused: the first caller takes it back.
    let other = admitting(&users);
    let mine = admits(&users, 1);
    assert!(mine != other.join().unwrap());
    assert_eq!(users.key(&1).peek().retry_after, Some(SECOND));
});

model!(joiner_and_a_try_share_what_there_is, || {
    let (users, clock) = one_of_two();
    clock.advance(SECOND);
    let other = admitting(&users);
    let joined = Waiter::new(wait(&users)).join();
    let tried = other.join().unwrap();
    assert!(tried == joined.is_err());
    if let Err(waiter) = joined {
        clock.advance(SECOND);
        assert_eq!(waiter.output().unwrap().at(), clock.now());
    }
});

model!(refund_and_a_joiner_do_not_miss_each_other, || {
    let (users, _clock) = users(2, Reject);
    let charge = users.key(&1).try_acquire().unwrap();
    let other = with(&users, |users| users.key(&1).refund(charge));
    let joined = Waiter::new(wait(&users)).join();
    join_all([other]);
    // No time has passed.
    output_of(joined).unwrap();
    assert_eq!(users.key(&1).peek().retry_after, Some(SECOND));
});

model!(close_and_a_joiner_do_not_miss_each_other, || {
    let (users, _clock) = one_of_two();
    let other = with(&users, |users| users.close());
    let joined = Waiter::new(wait(&users)).join();
    join_all([other]);
    assert_eq!(kind(output_of(joined)), Some(ErrorKind::Closed));
});

// A key whose caller waits has a limiter of its own, separate from its shard.
model!(of_two_quotas_set_at_once_one_holds_for_all_keys, || {
    let (users, _clock) = one_of_two();
    let _waiter = Waiter::queued(wait(&users));
    let set = |users: &Arc<Users>, count| users.set_quota(Quota::per_second(count).burst(count));
    let other = with(&users, move |users| set(users, 2));
    set(&users, 3);
    join_all([other]);
    assert_eq!(users.key(&1).quota(), users.quota());
    assert_eq!(users.key(&2).quota(), users.quota());
});

model!(quota_and_a_joiner_do_not_miss_each_other, || {
    let (users, clock) = one_of_two();
    let other = with(&users, |users| users.set_quota(Quota::per_second(2)));
    let waiter = Waiter::queued(wait(&users));
    join_all([other]);
    assert_eq!(users.key(&1).quota(), users.quota());
    clock.advance(SECOND / 2);
    waiter.output().unwrap();
});

model!(set_permits_twice_at_once_leaves_one_limit, || {
    let slots = slots(2);
    let permit = slots.key(&1).try_acquire().unwrap();
    let other = with(&slots, |slots| slots.set_permits(2));
    slots.set_permits(3);
    join_all([other]);
    let limit = slots.key(&2).snapshot().limit;
    assert!(limit == 2 || limit == 3);
    assert_eq!(slots.key(&1).snapshot().limit, limit);
    drop(permit);
});

model!(set_permits_misses_neither_a_new_key_nor_a_waiter, || {
    let slots = slots(2);
    let permit = slots.key(&1).try_acquire().unwrap();
    let other = with(&slots, |slots| slots.set_permits(2));
    let joined = Waiter::new(Arc::clone(&slots).key_owned(1).acquire()).join();
    let new = slots.key(&2).try_acquire().unwrap();
    join_all([other]);
    let joined = output_of(joined).unwrap();
    assert_eq!(slots.key(&2).snapshot().limit, 2);
    drop((permit, joined, new));
});

model!(key_of_which_a_permit_is_out_is_not_evicted, || {
    let slots = slots(1);
    let out = Arc::new(AtomicUsize::new(0));
    let enter = |(slots, out): &(Arc<Slots>, Arc<AtomicUsize>), key: u32| {
        if let Ok(_permit) = slots.key(&key).try_acquire() {
            // There is one key, so there is one permit.
            assert_eq!(out.fetch_add(1, Ordering::SeqCst), 0);
            out.fetch_sub(1, Ordering::SeqCst);
        }
    };
    let both = (Arc::clone(&slots), out);
    let other = with(&both, move |both| enter(both, 1));
    enter(&both, 2);
    join_all([other]);
    assert_eq!(slots.len(), 1);
});

/// Returns two keys of one shard, and one of another, where there are two shards.
///
/// With room for two keys, a third one that would evict any of them is rejected exactly if both are
/// in the other shard.
fn two_of_one_shard_and_one_of_another() -> [u32; 3] {
    static FOUND: OnceLock<[u32; 3]> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let found = Arc::new(Mutex::new(None));
        let keys = Arc::clone(&found);
        loom::model(move || {
            let of_three = |[one, two, other]: [u32; 3]| {
                let (users, _clock) = users(2, Evict);
                users.key(&one).try_acquire().unwrap();
                users.key(&two).try_acquire().unwrap();
                users.key(&other).try_acquire().is_err()
            };
            let all = (1..9).flat_map(|other| [[1, 2, other], [1, 3, other], [2, 3, other]]);
            let mut distinct = all.filter(|[one, two, other]| one != other && two != other);
            *keys.lock().unwrap() = distinct.find(|keys| of_three(*keys));
        });
        let keys = found.lock().unwrap().take();
        keys.expect("of three keys two are in one of two shards")
    })
}

#[test]
fn new_keys_in_two_shards_with_one_place_left_one_is_rejected() {
    let [present, one, other] = two_of_one_shard_and_one_of_another();
    check(3, move || {
        let (users, _clock) = users(2, Reject);
        users.key(&present).try_acquire().unwrap();
        let thread = with(&users, move |users| {
            users.key(&other).try_acquire().map(drop)
        });
        let mine = users.key(&one).try_acquire().map(drop);
        let theirs = thread.join().unwrap();
        assert_one_rejected(mine, theirs);
        assert_eq!(users.len(), 2);
    });
}

#[test]
fn shrink_beside_a_new_key_of_another_shard_counts_both() {
    let [idle, one, other] = two_of_one_shard_and_one_of_another();
    check(3, move || {
        let (users, clock) = users(2, Reject);
        users.key(&idle).try_acquire().unwrap();
        clock.advance(SECOND);
        let thread = with(&users, |users| users.shrink());
        users.key(&other).try_acquire().unwrap();
        join_all([thread]);
        assert_eq!(users.len(), 1);
        users.key(&one).try_acquire().unwrap();
        assert_eq!(users.len(), 2);
        assert!(users.key(&idle).try_acquire().is_err());
    });
}

model!(retain_beside_a_call_counts_what_is_there, || {
    let (users, _clock) = one_of_two();
    let thread = with(&users, |users| users.retain(|_| false));
    let again = admits(&users, 1);
    join_all([thread]);
    // The key was dropped before or after the call, or before the call inserted it.
    let kept = users.key(&1).snapshot().available == 0;
    assert_eq!(users.len(), usize::from(kept));
    assert!(again || !kept);
});

model!(requota_and_a_joiner_do_not_miss_each_other, || {
    let clock = clock();
    let rate = Arc::new(AtomicU64::new(1));
    let plan = Arc::clone(&rate);
    let users = Keyed::<u32, _>::new(RateLimiter::new(Quota::per_second(1)).clock(&clock))
        .max_keys(1)
        .quotas(move |_| Quota::per_second(plan.load(Ordering::SeqCst)))
        .hasher(Hashing::default());
    let users = Arc::new(users);
    users.key(&1).try_acquire().unwrap();
    rate.store(2, Ordering::SeqCst);
    let thread = with(&users, |users| users.requota(&1));
    let waiter = Waiter::queued(wait(&users));
    join_all([thread]);
    assert_eq!(users.key(&1).quota(), Quota::per_second(2));
    clock.advance(SECOND / 2);
    waiter.output().unwrap();
});
