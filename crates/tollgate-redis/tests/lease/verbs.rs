//! The functions that the tests of leases share, and the tests of each method.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tollgate::{ErrorKind, all};
use tollgate_redis::{AcquireLease, Lease, Semaphore, Store, StoreError};

use crate::support::server::Server;
pub(super) use crate::support::{PATIENT, until};
use crate::support::{ask, failure, on_server, runtime, waits};

/// The key of the leases.
pub(super) const KEY: &str = "{jobs}/semaphore/leases";

/// Creates a semaphore without a grace time, which polls the server often. Leases that are not
/// returned last longer than a test.
pub(super) fn semaphore(store: &Store, permits: usize) -> Semaphore {
    Semaphore::new(store, "jobs", permits)
        .ttl(Duration::from_secs(3_600))
        .grace(Duration::ZERO)
        .poll(Duration::from_millis(1))
}

/// Makes the data of the server old, so that it does not count as lost recently.
pub(super) fn is_old(server: &Server) {
    ask::<()>(server, &["SET", "tollgate:born", "1"]);
}

/// Waits until this number of permits is free.
pub(super) async fn until_free(semaphore: &Semaphore, free: usize) {
    until(async || semaphore.available().await.is_ok_and(|now| now == free)).await;
}

/// Returns the number of members of a sorted set.
pub(super) fn members(server: &Server, key: &str) -> usize {
    ask(server, &["ZCARD", key])
}

pub(super) fn tickets(server: &Server) -> usize {
    members(server, "{jobs}/semaphore/tickets")
}

/// Returns the microsecond in which a lease expires.
pub(super) fn score(server: &Server, id: &str) -> Option<f64> {
    ask(server, &["ZSCORE", KEY, id])
}

// Tests of each method.

#[test]
fn acquire_and_release_hold_and_return_permits() {
    on_server(async |server| {
        let semaphore = semaphore(&server.store(), 2);
        assert_eq!(semaphore.available().await.unwrap(), 2);
        let first = semaphore.acquire().await.unwrap();
        let second = semaphore.acquire().await.unwrap();
        assert!(second.fencing() > first.fencing());
        assert!(!first.is_lost() && !first.token().is_cancelled());
        assert_eq!((first.count(), members(server, KEY)), (1, 2));
        assert_eq!(semaphore.available().await.unwrap(), 0);
        let refused = semaphore.try_acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoPermits);
        assert_eq!(tickets(server), 0, "who tries leaves no ticket");

        let token = first.token().clone();
        first.release().await.unwrap();
        assert_eq!(semaphore.available().await.unwrap(), 1);
        assert!(!token.is_cancelled(), "given back is not lost");
        drop(second);
        until_free(&semaphore, 2).await;
        drop(semaphore.try_acquire().await.unwrap());
    });
}

#[test]
fn acquire_many_of_some_and_of_none_counts() {
    on_server(async |server| {
        let semaphore = semaphore(&server.store(), 4);
        let three = semaphore.acquire_many(3).await.unwrap();
        assert_eq!(
            (three.count(), semaphore.available().await.unwrap()),
            (3, 1)
        );
        let refused = semaphore.try_acquire_many(2).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoPermits);
        let refused = semaphore.acquire_many(5).await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.capacity()),
            (ErrorKind::ExceedsCapacity, Some(4))
        );
        let nothing = semaphore.acquire_many(0).await.unwrap();
        assert_eq!((nothing.count(), nothing.fencing()), (0, 0));
        assert!(!nothing.is_lost());
        nothing.release().await.unwrap();
        three.release().await.unwrap();
        assert_eq!(semaphore.available().await.unwrap(), 4);
    });
}

#[test]
fn close_with_waiters_refuses_them_and_leaves_no_ticket() {
    on_server(async |server| {
        let semaphore = semaphore(&server.store(), 1);
        let held = semaphore.acquire().await.unwrap();
        let waiting = tokio::spawn(semaphore.acquire());
        until(async || tickets(server) == 1).await;
        semaphore.close();
        let refused = waiting.await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed);
        let refused = semaphore.acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed);
        until(async || tickets(server) == 0).await;
        assert!(!held.is_lost());
    });
}

#[test]
fn acquire_cancelled_or_timed_out_leaves_no_ticket() {
    on_server(async |server| {
        // Polls so rarely that a ticket would stay until the end of the test.
        let semaphore = semaphore(&server.store(), 1).poll(Duration::from_secs(60));
        let _held = semaphore.acquire().await.unwrap();
        let token = CancellationToken::new();
        let waiting = tokio::spawn(semaphore.acquire().cancel_on(token.clone()));
        until(async || tickets(server) == 1).await;
        token.cancel();
        let refused = waiting.await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Cancelled);
        until(async || tickets(server) == 0).await;

        let soon = semaphore.acquire().timeout(Duration::from_millis(10));
        assert_eq!(soon.await.unwrap_err().kind(), ErrorKind::TimedOut);
        until(async || tickets(server) == 0).await;
        assert_eq!(semaphore.waiting(), 0);
    });
}

#[test]
fn set_permits_to_more_fewer_or_none_applies() {
    on_server(async |server| {
        let semaphore = semaphore(&server.store(), 2);
        let held = semaphore.acquire().await.unwrap();
        semaphore.set_permits(0);
        let waiting = tokio::spawn(semaphore.acquire_many(2));
        until(async || tickets(server) == 1).await;
        semaphore.set_permits(1);
        let refused = waiting.await.unwrap().unwrap_err();
        assert_eq!(refused.capacity(), Some(1), "it cannot be any more");

        let waiting = tokio::spawn(semaphore.acquire());
        until(async || tickets(server) == 1).await;
        semaphore.set_permits(2);
        let other = waiting.await.unwrap().unwrap();
        assert_eq!(semaphore.available().await.unwrap(), 0);
        semaphore.set_permits(1);
        drop(other);
        until(async || members(server, KEY) == 1).await;
        assert_eq!(semaphore.available().await.unwrap(), 0);
        drop(held);
        until_free(&semaphore, 1).await;
    });
}

#[test]
fn acquire_dropped_in_flight_gives_back_its_lease() {
    on_server(async |server| {
        let semaphore = semaphore(&server.store(), 3);
        for yields in 0..200 {
            let mut acquire = Box::pin(semaphore.acquire());
            for _ in 0..yields {
                if !waits(&mut acquire).await {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(acquire);
        }
        until_free(&semaphore, 3).await;
        until(async || tickets(server) == 0 && semaphore.waiting() == 0).await;
        assert_eq!(members(server, KEY), 0);
    });
}

#[test]
fn enter_and_wait_work() {
    fn assert_free<T: Send + Sync + Unpin + 'static>() {}
    assert_free::<Semaphore>();
    assert_free::<Lease>();
    assert_free::<AcquireLease>();

    on_server(async |server| {
        let semaphore = semaphore(&server.store(), 1);
        let local = Arc::new(tollgate::Semaphore::new(1));
        let both = all((semaphore.clone(), Arc::clone(&local)));
        let (lease, permit) = both.acquire().await.unwrap();
        assert_eq!(lease.count(), 1);
        drop((lease, permit));

        // A later part refuses, so the lease is returned.
        local.close();
        both.acquire().await.unwrap_err();
        until_free(&semaphore, 1).await;
        let lease = tokio::task::spawn_blocking(move || semaphore.acquire().wait());
        lease.await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn acquire_with_a_full_queue_is_refused_and_try_is_behind_it() {
    on_server(async |server| {
        let store = server.store();
        let semaphore = semaphore(&store, 2).max_waiters(1);
        let _held = semaphore.acquire().await.unwrap();
        let _waiting = tokio::spawn(semaphore.acquire_many(2));
        until(async || tickets(server) == 1).await;
        let refused = semaphore.acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QueueFull);
        // One permit is free, but is left for the waiter; another process sees its ticket.
        assert_eq!(semaphore.available().await.unwrap(), 1);
        let other = self::semaphore(&server.store(), 2);
        for semaphore in [&semaphore, &other] {
            let refused = semaphore.try_acquire().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NoPermits);
        }
    });
}

#[test]
fn acquire_of_a_key_of_another_type_is_a_typed_error() {
    on_server(async |server| {
        for key in [KEY, "{jobs}/semaphore/state", "{jobs}/semaphore/tickets"] {
            let () = ask(server, &["LPUSH", key, "1"]);
            let refused = semaphore(&server.store(), 1).acquire().await.unwrap_err();
            assert_eq!(failure(&refused), StoreError::WrongType, "{key}");
            let () = ask(server, &["DEL", key]);
        }
        let huge = "9".repeat(400);
        for (key, corrupt) in [
            ("{jobs}/semaphore/state", format!("1:{huge}:1")),
            ("tollgate:born", huge.clone()),
        ] {
            let () = ask(server, &["SET", key, &corrupt]);
            let refused = semaphore(&server.store(), 1).acquire().await.unwrap_err();
            assert_eq!(failure(&refused), StoreError::WrongType, "{key}");
            assert_eq!(ask::<String>(server, &["GET", key]), corrupt);
            let () = ask(server, &["DEL", key]);
        }
    });
}

#[test]
fn release_in_the_process_asks_for_waiters_at_once() {
    on_server(async |server| {
        let semaphore = semaphore(&server.store(), 1).poll(Duration::from_secs(3_600));
        let held = semaphore.acquire().await.unwrap();
        let waiting = tokio::spawn(semaphore.acquire());
        until(async || tickets(server) == 1).await;
        drop(held);
        let next = waiting.await.unwrap().unwrap();
        next.release().await.unwrap();
    });
}

#[test]
fn options_with_invalid_times_panic() {
    let runtime = runtime();
    let _inside = runtime.enter();
    let store = tollgate_redis::Store::new("redis://127.0.0.1/").unwrap();
    let made = || Semaphore::new(&store, "jobs", 1);
    let refused = |make: &dyn Fn() -> Semaphore| {
        let make = std::panic::AssertUnwindSafe(make);
        let panic = std::panic::catch_unwind(|| drop(make())).unwrap_err();
        *panic.downcast::<String>().unwrap()
    };
    for (make, said) in [
        (
            &(|| made().ttl(Duration::from_millis(9))) as &dyn Fn() -> Semaphore,
            "9ms",
        ),
        (&|| made().ttl(Duration::MAX), "s is not between"),
        (&|| made().grace(Duration::MAX), "s is longer"),
        (&|| made().poll(Duration::ZERO), "0ns"),
    ] {
        let message = refused(make);
        assert!(message.contains(said), "{message}");
    }
}
