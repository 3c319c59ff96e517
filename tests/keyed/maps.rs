//! Properties of a map beyond its rows: the cap and many keys, costs, quotas from a function, its keys as
//! an iterator, and statics.

use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tollgate::rate::{MissedTickBehavior, QuotaChange};
use tollgate::throttle::Weighted;
use tollgate::time::ManualClock;
use tollgate::{Clock, ErrorKind, Keyed, Quota, RateLimiter};

use super::model::Users;
use crate::support::audit::Allowance;
use crate::support::random::on_threads;
use crate::support::{Waiter, kind};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn cost_is_what_each_entry_takes() {
    let users = Arc::new(Users::rate_limiters(Quota::per_second(1)));
    let unlimited = Users::rate_limiters(Quota::UNLIMITED);
    assert_eq!(unlimited.key(&1).chunk_units(), u64::MAX);
    let refused = kind(users.key(&1).cost(2).try_acquire());
    assert_eq!(refused, ErrorKind::ExceedsCapacity);
    let slots = Arc::new(Keyed::<u32, _>::semaphores(4));
    let permit = slots.key(&1).cost(3).try_acquire().unwrap();
    assert_eq!(permit.count(), 3);
    let two = Arc::clone(&slots).key_owned(1).cost(2);
    assert_eq!(kind(two.try_acquire()), ErrorKind::NoPermits);
}

/// From outside: a key said `TimedOut` where a limiter says `QueueFull`. A full queue comes before a
/// timeout that will not fit.
#[test]
fn acquire_that_will_not_fit_is_refused_as_a_limiter_refuses() {
    for (max_waiters, expected) in [
        (0, ErrorKind::QueueFull),
        (1, ErrorKind::QueueFull),
        (2, ErrorKind::TimedOut),
    ] {
        let clock = Clock::manual();
        let [limiter, each] = [(); 2].map(|()| {
            RateLimiter::new(Quota::per_second(1))
                .max_waiters(max_waiters)
                .missed_tick(MissedTickBehavior::Delay)
                .clock(&clock)
        });
        let users = Users::new(each);
        let user = users.key(&1);
        limiter.try_acquire().unwrap();
        user.try_acquire().unwrap();
        let wait = |_| {
            (
                Waiter::parked(limiter.acquire()),
                Waiter::parked(user.acquire()),
            )
        };
        let _waiters: Vec<_> = (0..max_waiters.min(1)).map(wait).collect();
        for timeout in [Duration::ZERO, SECOND / 2] {
            let theirs = limiter.acquire().timeout(timeout).wait().unwrap_err();
            let ours = user.acquire().timeout(timeout).wait().unwrap_err();
            assert_eq!(theirs.kind(), expected);
            assert_eq!(ours, theirs);
        }
    }
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

/// Keys that move when the table grows take their quotas and their queues with them.
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

/// The function for a key's quota runs under no lock. The clock advances meanwhile, and another call may come first:
/// then the key is charged when its entry exists, not when the function was called.
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

#[test]
fn try_acquire_of_a_key_that_came_meanwhile_finds_its_entry() {
    let users: Arc<OnceLock<Users>> = Arc::default();
    let asked = AtomicBool::new(false);
    let quotas = {
        let users = Arc::downgrade(&users);
        move |key: &u32| {
            if !asked.swap(true, Ordering::Relaxed) {
                let users = users.upgrade().unwrap();
                users.get().unwrap().key(key).try_acquire().unwrap();
            }
            Quota::per_hour(1)
        }
    };
    let map = Users::new(RateLimiter::new(Quota::per_hour(1)).clock(Clock::manual()));
    assert!(users.set(map.quotas(quotas)).is_ok());
    let map = users.get().unwrap();
    assert_eq!(kind(map.key(&1).try_acquire()), ErrorKind::RateLimited);
    assert_eq!(map.len(), 1);
}

/// The function for a key's quota runs under no lock. Meanwhile the key may get a limiter, or lose the one that it has.
#[test]
fn requota_of_a_key_whose_limiter_comes_or_goes_meanwhile_is_not_lost() {
    for goes in [false, true] {
        let clock = Clock::manual();
        let (users, plan): (Arc<OnceLock<Users>>, Arc<AtomicU64>) = Default::default();
        let quotas = {
            let (users, plan) = (Arc::downgrade(&users), Arc::clone(&plan));
            move |key: &u32| {
                let plan = plan.load(Ordering::Relaxed);
                if plan > 0 && *key == 1 {
                    let users = users.upgrade().unwrap();
                    let users = users.get().unwrap();
                    if goes {
                        // An insertion reclaims the limiter.
                        users.key(&2).try_acquire().unwrap();
                    } else {
                        drop(users.key(&1).reserve().unwrap());
                    }
                }
                Quota::per_second(1).burst(1 + plan)
            }
        };
        let map = Users::new(RateLimiter::new(Quota::per_second(1)).clock(&clock)).max_keys(60);
        assert!(users.set(map.quotas(quotas)).is_ok());
        let map = users.get().unwrap();
        map.key(&1).try_acquire().unwrap();
        if goes {
            drop(map.key(&1).reserve().unwrap());
        }
        clock.advance(SECOND);
        plan.store(3, Ordering::Relaxed);
        map.requota(&1);
        assert_eq!(map.key(&1).quota(), Quota::per_second(1).burst(4));
    }
}

/// The new quota has the same rate, so the backlog of the key does not change.
#[test]
fn refund_of_a_charge_from_before_a_requota_gives_nothing() {
    let plan = Arc::new(AtomicU64::new(5));
    let burst = Arc::clone(&plan);
    let users = Users::new(RateLimiter::new(Quota::per_hour(5)).clock(Clock::manual()))
        .quotas(move |_| Quota::per_hour(5).burst(burst.load(Ordering::Relaxed)));
    let charge = users.key(&1).try_acquire_many(5).unwrap();
    plan.store(50, Ordering::Relaxed);
    users.requota_with(&1, QuotaChange::KeepSpent);
    users.key(&1).refund(charge);
    assert_eq!(users.key(&1).snapshot().available, 45);
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

fn users(keys: usize) -> (Users, ManualClock) {
    let clock = Clock::manual();
    let quota = Quota::per_second(1).burst(4);
    let users = Users::new(RateLimiter::new(quota).clock(&clock)).max_keys(keys);
    (users, clock)
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
    // Hardly any of the old ones are left.
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
        // Others' refusals meanwhile make no difference.
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

/// Threads take tokens, and the ticks of the charges are checked; some wait, some give up, and some
/// give back.
#[test]
fn calls_in_threads_keep_the_promise_for_every_key() {
    for (quota, keys) in [
        (Quota::per_second(1000).burst(5), 60),
        (Quota::per_second(20_000).burst(2), 5),
    ] {
        let users = Users::rate_limiters(quota).max_keys(20);
        let charged = on_threads(4, |random| {
            let mut charged = Vec::new();
            for _ in 0..5_000 {
                let key = random.below(keys);
                let user = users.key(&key);
                let admitted = match random.below(20) {
                    0 if keys < 20 => Ok(user.acquire().wait().unwrap()),
                    1 => {
                        let both = user.acquire_many(2).timeout(Duration::from_micros(20));
                        drop(both.wait().map(|charge| user.refund(charge)));
                        continue;
                    }
                    2 => {
                        users.shrink();
                        continue;
                    }
                    _ => user.try_acquire(),
                };
                charged.extend(admitted.map(|charge| (key, (charge.at().as_nanos(), 1))));
            }
            charged
        })
        .concat();
        assert!(users.len() <= 20);
        for key in 0..keys {
            let of_key = charged.iter().filter(|(other, _)| *other == key);
            let of_key: Vec<_> = of_key.map(|(_, entry)| *entry).collect();
            assert_eq!(Allowance::of(quota).audit(&of_key), Ok(()), "{key}");
        }
    }
}
