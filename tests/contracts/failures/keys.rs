//! Failures of limits by key and over HTTP: with many keys, and in the hints to clients.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use tollgate::keyed::WhenFull;
use tollgate::{Clock, Keyed, Quota, RateLimiter, all};
use tollgate_tower::ThrottleLayer;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::Waiter;

/// Evictions that go through all keys delay every caller.
///
/// Seen in throttle-net TN-003. `src/keyed/tests.rs` counts the entries that a new key looks at;
/// here, the count is that of key comparisons, which run foreign code.
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

/// One noisy user, whose requests the limit above refuses, is charged for none of them, and its
/// refused requests leave room for others.
///
/// Seen in throttle-net TN2-002.
#[test]
fn noisy_user_holds_the_shared_scope() {
    let clock = Clock::manual();
    let each = RateLimiter::new(Quota::per_second(1).burst(2)).clock(&clock);
    let users = Keyed::<u64, _>::new(each);
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
