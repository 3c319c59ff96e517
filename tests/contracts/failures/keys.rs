//! How limits by key and over HTTP go wrong: by how many keys there are, by what is done under a lock, by
//! whom they take a client for, and by what they tell it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use tollgate::{Clock, ErrorKind, Gate, Keyed, Quota, RateLimiter, WhenFull, all};
use tollgate_tower::{ClientIp, ThrottleLayer};
use tower::{Layer, ServiceExt, service_fn};

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

/// The first address of `X-Forwarded-For` is believed, which the client writes: a limit for each
/// address that it makes up.
///
/// Seen in tower_governor 0.8.0, `SmartIpKeyExtractor`.
#[test]
fn forwarded_address_that_the_client_made_up() {
    let proxy = |_: &axum::http::Extensions| Some(SocketAddr::from(([10, 0, 0, 1], 443)));
    let address = ClientIp::peer(proxy).behind(1);
    let clients = Keyed::<_, RateLimiter>::rate_limiters(Quota::per_hour(1));
    let admitted = (0..100).filter(|made_up| {
        let forwarded = format!("192.0.2.{made_up}, 1.2.3.4");
        let request = Request::get("/").header("x-forwarded-for", forwarded);
        let client = address.of(&request.body(()).unwrap());
        clients.key(&client).try_acquire().is_ok()
    });
    assert_eq!(admitted.count(), 1);
}

/// `Retry-After` is rounded down, to 0 for every quota above one a second: clients come back at once,
/// and are refused again.
///
/// Seen in tower_governor 0.8.0, `wait_time_from(..).as_secs()`.
#[test]
fn retry_after_rounded_down() {
    let clock = Clock::manual();
    let quota = Quota::new(1, Duration::from_millis(1900));
    let limiter = Arc::new(RateLimiter::new(quota).clock(&clock));
    let service =
        service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty())));
    let service = ThrottleLayer::new(limiter).refusing().layer(service);
    let ask = || {
        let answer = service.clone().oneshot(Request::new(Body::empty()));
        Waiter::new(answer).output().unwrap()
    };
    assert_eq!(ask().status(), 200);
    let after = ask().headers()["retry-after"].to_str().unwrap().parse();
    clock.advance(Duration::from_secs(after.unwrap()));
    assert_eq!(ask().status(), 200);
}

/// What was held back goes all at once when the pause is over, and is refused again.
///
/// Seen in a client with this crate's own `all((gate, rate))`, without the pause of the rate: seven
/// requests within 5 ms.
#[test]
fn reopening_is_a_stampede() {
    let clock = Clock::manual();
    let gate = Gate::new().clock(&clock);
    let rate = RateLimiter::new(Quota::per_second(10).burst(7)).clock(&clock);
    let polite = all((&gate, &rate));
    gate.block_for(Duration::from_secs(1));
    rate.pause_for(Duration::from_secs(1));
    let mut requests = [(); 7].map(|()| Waiter::parked(polite.acquire()));
    clock.advance(Duration::from_secs(1));
    let sent = requests.iter_mut().filter_map(|request| {
        let is_sent = !request.is_pending();
        is_sent.then_some(())
    });
    assert_eq!(sent.count(), 1);
}
