//! Calls that are polled outside of the runtime that the store lives on, and without it.

use std::time::Duration;

use tollgate::{ErrorKind, Quota};
use tollgate_redis::{Detector, LimitSet, RateLimiter, Semaphore, Store, StoreError};

use crate::support::server::Server;
use crate::support::{outside, runtime, slow};

fn quick() -> Quota {
    Quota::new(1, Duration::from_millis(20))
}

fn store_of(server: &Server, runtime: &tokio::runtime::Runtime) -> Store {
    let _inside = runtime.enter();
    server.store()
}

#[test]
fn calls_outside_of_every_runtime_work() {
    let server = Server::start();
    let runtime = runtime();
    let store = store_of(&server, &runtime);
    assert!(!outside(store.check()).unwrap().is_empty());

    let limiter = RateLimiter::new(&store, "k", slow(5));
    let charge = outside(limiter.charge(2)).unwrap();
    assert_eq!(outside(limiter.peek(0)).unwrap().remaining, 3);
    outside(limiter.refund(charge)).unwrap();
    let reservation = outside(limiter.reserve(Duration::ZERO)).unwrap();
    assert_eq!(outside(limiter.peek(0)).unwrap().remaining, 4);
    drop(reservation);

    let limits = LimitSet::new(&store)
        .limit("a", quick())
        .limit("b", slow(9));
    let first = outside(limits.try_acquire()).unwrap();
    // These wait for their turn.
    outside(limits.acquire()).unwrap();
    outside(limits.acquire()).unwrap();
    assert_eq!(outside(limits.peek(1)).unwrap()[1].remaining, 6);
    outside(limits.refund(first.into_charges().unwrap())).unwrap();

    let detector = Detector::new(&store, "abuse", slow(10));
    detector.record_many("mallory", 11);
    assert_eq!(outside(detector.pass()), Ok(1));

    let semaphore = Semaphore::new(&store, "jobs", 2).grace(Duration::ZERO);
    let lease = outside(semaphore.acquire()).unwrap();
    assert_eq!(outside(semaphore.available()), Ok(1));
    outside(lease.release()).unwrap();
    assert_eq!(outside(semaphore.available()), Ok(2));
}

#[test]
fn calls_in_another_runtime_work() {
    let server = Server::start();
    let runtime = runtime();
    let store = store_of(&server, &runtime);
    // Without timers and sockets.
    let other = tokio::runtime::Builder::new_current_thread().build();
    other.unwrap().block_on(async {
        let limits = LimitSet::new(&store).limit("a", quick());
        limits.acquire().await.unwrap();
        limits.acquire().await.unwrap();
        let limiter = RateLimiter::new(&store, "k", slow(5));
        assert_eq!(limiter.peek(0).await.unwrap().remaining, 5);
    });
}

#[test]
fn calls_without_the_runtime_are_errors() {
    let server = Server::start();
    let runtime = runtime();
    let store = store_of(&server, &runtime);
    let limiter = RateLimiter::new(&store, "k", slow(5));
    let limits = LimitSet::new(&store).limit("a", slow(2));
    let detector = Detector::new(&store, "abuse", slow(10));
    let semaphore = Semaphore::new(&store, "jobs", 2).grace(Duration::ZERO);
    let charges = outside(limits.acquire_many(2)).unwrap();
    let lease = outside(semaphore.acquire()).unwrap();

    // Somebody waits meanwhile: for hours, as the server says.
    let waits = std::thread::spawn({
        let limits = limits.clone();
        move || outside(limits.acquire())
    });
    while store.calls() < 3 {
        std::thread::yield_now();
    }
    drop(runtime);
    let error = waits.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);

    let gone = StoreError::NoRuntime;
    assert_eq!(outside(store.check()), Err(gone));
    assert_eq!(outside(limiter.peek(0)).unwrap_err(), gone);
    assert_eq!(outside(limits.peek(1)).unwrap_err(), gone);
    assert_eq!(outside(limits.try_acquire()).unwrap_err(), gone);
    assert_eq!(outside(limits.refund(charges)), Err(gone));
    detector.record("mallory");
    assert_eq!(outside(detector.pass()), Err(gone));
    assert_eq!(outside(semaphore.available()), Err(gone));
    assert!(lease.is_lost());
    drop(lease);
    let refused = outside(semaphore.acquire()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Store);
    assert!(!store.is_broken());
}
