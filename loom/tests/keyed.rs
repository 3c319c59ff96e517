//! Keys with two threads, under every interleaving within the bound of [`model`], on a manual clock:
//! inserted, evicted, decided, promoted and taken back.

#![cfg(tollgate_loom)]
// The threads of a model are not threads: loom asks for no `Send`.
#![allow(clippy::arc_with_non_send_sync)]

use std::future::Future;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::thread;
use tollgate::Throttle;
use tollgate::keyed::Key;
use tollgate::{
    Charge, Clock, ErrorKind, Keyed, ManualClock, Quota, RateLimiter, Semaphore, WhenFull,
};

/// The same in every run, unlike the one that is used by default.
type Hashing = BuildHasherDefault<DefaultHasher>;

type Users = Keyed<u32, RateLimiter, Hashing>;
type Slots = Keyed<u32, Semaphore, Hashing>;

/// Every interleaving with at most so many preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(run);
}

const SECOND: Duration = Duration::from_secs(1);

fn users(max_keys: usize, when_full: WhenFull) -> (Arc<Users>, ManualClock) {
    let clock = Clock::manual();
    clock.advance(100 * SECOND);
    let users = Keyed::<u32, _>::new(RateLimiter::new(Quota::per_second(1)).clock(&clock))
        .max_keys(max_keys)
        .when_full(when_full)
        .hasher(Hashing::default());
    // It is made at the first use, by an `OnceLock`, which loom does not know.
    assert_eq!(users.key(&0).snapshot().available, 1);
    (Arc::new(users), clock)
}

fn slots(max_keys: usize) -> Arc<Slots> {
    let slots = Keyed::<u32, _>::semaphores(1)
        .max_keys(max_keys)
        .hasher(Hashing::default());
    assert_eq!(slots.key(&0).snapshot().available, 1);
    Arc::new(slots)
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Somebody who waits.
struct Waiter {
    future: tollgate::Waiting<<Key<'static, RateLimiter, u32, Hashing> as Throttle>::Enter>,
    wakes: Arc<Wakes>,
}

impl Waiter {
    fn new(users: &Arc<Users>, key: u32) -> Self {
        Self {
            future: Arc::clone(users).key_owned(key).acquire(),
            wakes: Arc::default(),
        }
    }

    fn poll(&mut self) -> Poll<Charge> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        let polled = Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker));
        polled.map(Result::unwrap)
    }

    fn output(mut self) -> Charge {
        assert!(self.wakes.0.load(Ordering::SeqCst) > 0, "not woken");
        match self.poll() {
            Poll::Ready(charge) => charge,
            Poll::Pending => panic!("woken for nothing"),
        }
    }
}

/// The tick of one must not be older than the charge of the other.
#[test]
fn tries_while_time_passes_admit_as_many_as_there_is_room_for() {
    model(|| {
        let clock = Clock::manual();
        clock.advance(100 * SECOND);
        let users =
            Keyed::<u32, _>::new(RateLimiter::new(Quota::per_second(1).burst(2)).clock(&clock))
                .hasher(Hashing::default());
        assert_eq!(users.key(&0).snapshot().available, 2);
        let users = Arc::new(users);
        let other = Arc::clone(&users);
        let trying = thread::spawn(move || {
            clock.advance(Duration::from_nanos(1));
            other.key(&1).try_acquire().unwrap();
        });
        users.key(&1).try_acquire().unwrap();
        trying.join().unwrap();
        assert!(users.key(&1).try_acquire().is_err());
    });
}

#[test]
fn of_two_who_bring_the_same_key_one_is_admitted() {
    model(|| {
        let (users, _clock) = users(2, WhenFull::Reject);
        let other = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.key(&1).try_acquire().is_ok())
        };
        let mine = users.key(&1).try_acquire().is_ok();
        assert!(mine != other.join().unwrap());
        assert_eq!(users.len(), 1);
    });
}

#[test]
fn of_two_new_keys_and_one_place_one_is_refused() {
    model(|| {
        let (users, _clock) = users(1, WhenFull::Reject);
        let other = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.key(&1).try_acquire().map(drop))
        };
        let mine = users.key(&2).try_acquire().map(drop);
        let other = other.join().unwrap();
        assert!(mine.is_ok() != other.is_ok());
        assert_eq!(mine.and(other).unwrap_err().kind(), ErrorKind::TooManyKeys);
        assert_eq!(users.len(), 1);
    });
}

#[test]
fn an_evicted_key_is_not_used_any_more() {
    model(|| {
        let (users, _clock) = users(1, WhenFull::Evict);
        users.key(&1).try_acquire().unwrap();
        let other = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.key(&2).try_acquire().unwrap())
        };
        // It was evicted, or not yet; then it is a newcomer itself.
        let again = users.key(&1).try_acquire();
        other.join().unwrap();
        assert_eq!(users.len(), 1);
        let owes = users.key(&2).snapshot().available == 0;
        assert!(owes || again.is_ok());
    });
}

#[test]
fn a_joiner_and_an_eviction_do_not_miss_each_other() {
    model(|| {
        let (users, clock) = users(1, WhenFull::Evict);
        users.key(&1).try_acquire().unwrap();
        let mut waiter = Waiter::new(&users, 1);
        let other = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.key(&2).try_acquire().map(drop))
        };
        let polled = waiter.poll();
        let evicted = other.join().unwrap();
        match polled {
            // Pinned: the other one was refused.
            Poll::Pending => {
                assert_eq!(evicted.unwrap_err().kind(), ErrorKind::TooManyKeys);
                clock.advance(SECOND);
                assert_eq!(waiter.output().at(), clock.now());
            }
            Poll::Ready(_) => evicted.unwrap(),
        }
        assert_eq!(users.len(), 1);
    });
}

#[test]
fn a_try_and_a_limiter_that_is_taken_back_lose_nothing() {
    model(|| {
        let (users, clock) = users(2, WhenFull::Reject);
        users.key(&1).try_acquire().unwrap();
        let waiter = Waiter::new(&users, 1);
        let mut waiter = waiter;
        assert!(waiter.poll().is_pending());
        clock.advance(SECOND);
        waiter.output();
        clock.advance(SECOND);
        // All is paid off, and nobody has the limiter: the first to come takes it back.
        let other = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.key(&1).try_acquire().is_ok())
        };
        let mine = users.key(&1).try_acquire().is_ok();
        assert!(mine != other.join().unwrap());
        assert_eq!(users.key(&1).peek().retry_after, SECOND);
    });
}

#[test]
fn a_joiner_and_a_try_share_what_there_is() {
    model(|| {
        let (users, clock) = users(2, WhenFull::Reject);
        users.key(&1).try_acquire().unwrap();
        clock.advance(SECOND);
        let mut waiter = Waiter::new(&users, 1);
        let other = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.key(&1).try_acquire().is_ok())
        };
        let polled = waiter.poll();
        let tried = other.join().unwrap();
        assert!(tried == polled.is_pending());
        if tried {
            clock.advance(SECOND);
            assert_eq!(waiter.output().at(), clock.now());
        }
    });
}

#[test]
fn a_refund_and_a_joiner_do_not_miss_each_other() {
    model(|| {
        let (users, _clock) = users(2, WhenFull::Reject);
        let charge = users.key(&1).try_acquire().unwrap();
        let mut waiter = Waiter::new(&users, 1);
        let other = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.key(&1).refund(charge))
        };
        let polled = waiter.poll();
        other.join().unwrap();
        // No time has passed.
        if polled.is_pending() {
            waiter.output();
        }
        assert_eq!(users.key(&1).peek().retry_after, SECOND);
    });
}

#[test]
fn a_close_and_a_joiner_do_not_miss_each_other() {
    model(|| {
        let (users, _clock) = users(2, WhenFull::Reject);
        users.key(&1).try_acquire().unwrap();
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut future = Arc::clone(&users).key_owned(1).acquire();
        let other = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.close())
        };
        let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
        other.join().unwrap();
        let refused = match polled {
            Poll::Ready(refused) => refused,
            Poll::Pending => {
                assert!(wakes.0.load(Ordering::SeqCst) > 0, "not woken");
                match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(refused) => refused,
                    Poll::Pending => panic!("still waiting"),
                }
            }
        };
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
    });
}

/// Of a key whose caller waits, and which so has a limiter that is told apart from its shard.
#[test]
fn of_two_quotas_that_are_set_at_once_one_holds_for_all_keys() {
    model(|| {
        let (users, _clock) = users(2, WhenFull::Reject);
        users.key(&1).try_acquire().unwrap();
        let mut waiter = Waiter::new(&users, 1);
        assert!(waiter.poll().is_pending());
        let other = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.set_quota(Quota::per_second(2).burst(2)))
        };
        users.set_quota(Quota::per_second(3).burst(3));
        other.join().unwrap();
        assert_eq!(users.key(&1).quota(), users.quota());
        assert_eq!(users.key(&2).quota(), users.quota());
    });
}

#[test]
fn a_quota_and_a_joiner_do_not_miss_each_other() {
    model(|| {
        let (users, clock) = users(2, WhenFull::Reject);
        users.key(&1).try_acquire().unwrap();
        let other = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.set_quota(Quota::per_second(2)))
        };
        let mut waiter = Waiter::new(&users, 1);
        assert!(waiter.poll().is_pending());
        other.join().unwrap();
        assert_eq!(users.key(&1).quota(), users.quota());
        clock.advance(SECOND / 2);
        waiter.output();
    });
}

#[test]
fn set_permits_twice_at_once_leaves_one_limit_for_all_keys() {
    model(|| {
        let slots = slots(2);
        let permit = slots.key(&1).try_acquire().unwrap();
        let other = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || slots.set_permits(2))
        };
        slots.set_permits(3);
        other.join().unwrap();
        let limit = slots.key(&2).snapshot().limit;
        assert!(limit == 2 || limit == 3);
        assert_eq!(slots.key(&1).snapshot().limit, limit);
        drop(permit);
    });
}

#[test]
fn set_permits_beside_a_new_key_and_a_waiter_misses_neither() {
    model(|| {
        let slots = slots(2);
        let permit = slots.key(&1).try_acquire().unwrap();
        let other = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || slots.set_permits(2))
        };
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut future = Arc::clone(&slots).key_owned(1).acquire();
        let mut poll = || Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
        let polled = poll();
        let new = slots.key(&2).try_acquire().unwrap();
        other.join().unwrap();
        if polled.is_pending() {
            assert!(wakes.0.load(Ordering::SeqCst) > 0, "not woken");
            assert!(poll().is_ready());
        }
        assert_eq!(slots.key(&2).snapshot().limit, 2);
        drop((permit, new));
    });
}

#[test]
fn a_key_of_which_a_permit_is_out_is_not_evicted() {
    model(|| {
        let slots = slots(1);
        let out = Arc::new(AtomicUsize::new(0));
        let enter = |slots: &Slots, key: u32, out: &AtomicUsize| {
            if let Ok(permit) = slots.key(&key).try_acquire() {
                // There is one key, so one permit.
                assert_eq!(out.fetch_add(1, Ordering::SeqCst), 0);
                out.fetch_sub(1, Ordering::SeqCst);
                drop(permit);
            }
        };
        let other = {
            let (slots, out) = (Arc::clone(&slots), Arc::clone(&out));
            thread::spawn(move || enter(&slots, 1, &out))
        };
        enter(&slots, 2, &out);
        other.join().unwrap();
        assert_eq!(slots.len(), 1);
    });
}

/// Two keys of one shard, and one of another, where there are two shards.
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
                let (users, _clock) = users(2, WhenFull::Evict);
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
    model(move || {
        let (users, _clock) = users(2, WhenFull::Reject);
        users.key(&present).try_acquire().unwrap();
        let thread = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.key(&other).try_acquire().map(drop))
        };
        let mine = users.key(&one).try_acquire().map(drop);
        let theirs = thread.join().unwrap();
        assert!(mine.is_ok() != theirs.is_ok());
        assert_eq!(mine.and(theirs).unwrap_err().kind(), ErrorKind::TooManyKeys);
        assert_eq!(users.len(), 2);
    });
}

#[test]
fn shrink_beside_a_new_key_of_another_shard_counts_both() {
    let [idle, one, other] = two_of_one_shard_and_one_of_another();
    model(move || {
        let (users, clock) = users(2, WhenFull::Reject);
        users.key(&idle).try_acquire().unwrap();
        clock.advance(SECOND);
        let thread = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.shrink())
        };
        users.key(&other).try_acquire().unwrap();
        thread.join().unwrap();
        assert_eq!(users.len(), 1);
        users.key(&one).try_acquire().unwrap();
        assert_eq!(users.len(), 2);
        assert!(users.key(&idle).try_acquire().is_err());
    });
}

#[test]
fn retain_beside_a_call_for_its_key_counts_what_is_there() {
    model(|| {
        let (users, _clock) = users(2, WhenFull::Reject);
        users.key(&1).try_acquire().unwrap();
        let thread = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.retain(|_| false))
        };
        let again = users.key(&1).try_acquire().is_ok();
        thread.join().unwrap();
        // Dropped before or after the call, or before it inserted the key.
        let kept = users.key(&1).snapshot().available == 0;
        assert_eq!(users.len(), usize::from(kept));
        assert!(again || !kept);
    });
}

#[test]
fn requota_and_a_joiner_do_not_miss_each_other() {
    model(|| {
        let clock = Clock::manual();
        clock.advance(100 * SECOND);
        let rate = Arc::new(AtomicU64::new(1));
        let plan = Arc::clone(&rate);
        let users = Keyed::<u32, _>::new(RateLimiter::new(Quota::per_second(1)).clock(&clock))
            .max_keys(1)
            .quotas(move |_| Quota::per_second(plan.load(Ordering::SeqCst)))
            .hasher(Hashing::default());
        let users = Arc::new(users);
        users.key(&1).try_acquire().unwrap();
        rate.store(2, Ordering::SeqCst);
        let thread = {
            let users = Arc::clone(&users);
            thread::spawn(move || users.requota(&1))
        };
        let mut waiter = Waiter::new(&users, 1);
        assert!(waiter.poll().is_pending());
        thread.join().unwrap();
        assert_eq!(users.key(&1).quota(), Quota::per_second(2));
        clock.advance(SECOND / 2);
        waiter.output();
    });
}
