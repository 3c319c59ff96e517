//! How limits by key go wrong: by how many keys there are, and by what is done under a lock.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, ErrorKind, Keyed, Quota, RateLimiter, WhenFull, all};

use crate::support::{Waiter, kind};

const SECOND: Duration = Duration::from_secs(1);

fn users(when_full: WhenFull, max_keys: usize) -> (Keyed<u64, RateLimiter>, tollgate::ManualClock) {
    let clock = Clock::manual();
    let each = RateLimiter::new(Quota::per_second(1).burst(2)).clock(&clock);
    let users = Keyed::<u64, _>::new(each);
    (users.max_keys(max_keys).when_full(when_full), clock)
}

/// Keys without bound: an entry for each address that was ever seen.
///
/// Seen in librefang/librefang#3668. What they take is counted in `tests/memory/keyed_memory.rs`.
#[test]
fn keys_without_bound() {
    for when_full in [WhenFull::Reject, WhenFull::Evict] {
        let (users, clock) = users(when_full, 100);
        for key in 0..20_000 {
            let _ = users.key(&key).try_acquire();
            clock.advance(Duration::from_millis(1));
            assert!(users.len() <= 100);
        }
        assert_eq!(users.len(), 100);
    }
    let slots = Keyed::<u64, _>::semaphores(1).max_keys(100);
    let held: Vec<_> = (0..20_000)
        .map(|key| slots.key(&key).try_acquire())
        .collect();
    assert_eq!(held.iter().filter(|permit| permit.is_ok()).count(), 100);
}

/// Eviction forgets debt: who floods the map with names has its whole burst again.
///
/// Seen in rate-net RN-005.
#[test]
fn eviction_forgets_debt() {
    let (users, clock) = users(WhenFull::Reject, 10);
    let mut admitted = 0;
    for flood in 0..1000 {
        admitted += u64::from(users.key(&0).try_acquire().is_ok());
        for key in 1..20 {
            let _ = users.key(&(flood * 100 + key)).try_acquire();
        }
        clock.advance(SECOND / 100);
    }
    // Ten seconds, and the burst.
    assert!(admitted <= 12, "{admitted}");
}

/// Evictions that go through all keys hold everybody up.
///
/// Seen in throttle-net TN-003. How many entries a new key looks at is counted in
/// `src/keyed/tests.rs`; here it is how many keys are compared, which is how often foreign code runs.
#[test]
fn eviction_pauses_that_grow_with_the_keys() {
    use std::hash::{Hash, Hasher};
    use std::sync::atomic::{AtomicUsize, Ordering};

    static COMPARED: AtomicUsize = AtomicUsize::new(0);

    #[derive(Clone)]
    struct Name(u64);

    impl Hash for Name {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    impl PartialEq for Name {
        fn eq(&self, other: &Self) -> bool {
            COMPARED.fetch_add(1, Ordering::Relaxed);
            self.0 == other.0
        }
    }

    impl Eq for Name {}

    let users = Keyed::<Name, _>::rate_limiters(Quota::per_hour(1))
        .max_keys(10_000)
        .when_full(WhenFull::Evict);
    for key in 0..100_000 {
        COMPARED.store(0, Ordering::Relaxed);
        users.key(&Name(key)).try_acquire().unwrap();
        assert!(COMPARED.load(Ordering::Relaxed) <= 8);
    }
}

/// The map deadlocks when it is used where it calls back.
///
/// Seen in xacrimon/dashmap#305. With keys that use it when they are hashed, made and dropped, in
/// `tests/keyed/reentrant.rs`.
#[test]
fn map_deadlocks_under_a_callback() {
    let (users, clock) = users(WhenFull::Reject, 4);
    let users = Arc::new(users);
    for key in 0..4 {
        users.key(&key).try_acquire().unwrap();
    }
    users.retain(|key| {
        users.retain(|_| true);
        users.shrink();
        users.key(key).try_acquire().is_ok() && !users.is_empty()
    });
    assert_eq!(users.len(), 4);

    // Also from wakers, which are called when time goes on.
    struct Calls(Arc<Keyed<u64, RateLimiter>>);

    impl std::task::Wake for Calls {
        fn wake(self: Arc<Self>) {
            for key in 0..4 {
                assert_eq!(
                    kind(self.0.key(&key).try_acquire_many(3)),
                    ErrorKind::ExceedsCapacity
                );
            }
            self.0.retain(|_| true);
        }
    }

    let mut waiter = Waiter::new(users.key(&1).acquire());
    let waker = Arc::new(Calls(Arc::clone(&users))).into();
    assert!(waiter.poll_with(&waker).is_pending());
    clock.advance(SECOND);
    waiter.granted();
}

/// One noisy user, whose requests the limit above refuses, is charged for none of them, and leaves
/// to others what it is refused itself.
///
/// Seen in throttle-net TN2-002.
#[test]
fn noisy_user_holds_the_shared_scope() {
    let (users, clock) = users(WhenFull::Reject, 10);
    let everyone = RateLimiter::new(Quota::per_second(4).burst(4)).clock(&clock);
    let enter = |user: &u64| all((users.key(user), &everyone)).try_acquire().map(drop);
    for _ in 0..100 {
        let _ = enter(&0);
    }
    assert_eq!(everyone.snapshot().available, 2);
    enter(&1).unwrap();
    enter(&1).unwrap();
    for _ in 0..100 {
        assert_eq!(enter(&2).unwrap_err().part(), Some(1));
    }
    assert_eq!(users.key(&2).snapshot().available, 2);
}
