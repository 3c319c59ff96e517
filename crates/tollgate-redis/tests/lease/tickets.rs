//! What those who are told of a failure leave on the server: nothing.

use std::time::Duration;

use tokio::task::JoinHandle;
use tollgate::{AcquireError, ErrorKind};
use tollgate_redis::{Lease, Semaphore, Store, StoreError};

use super::look::{KEY, PATIENT, members, semaphore, tickets, until};
use crate::support::proxy::{Mode, Proxy};
use crate::support::server::Server;
use crate::support::{ask, failure, on_server};

/// Tickets last 40 times as long, which is longer than a test.
const POLL: Duration = Duration::from_secs(10);

type Waiter = JoinHandle<Result<Lease, AcquireError>>;

/// Behind a proxy, so that the store can be cut off.
async fn behind(proxy: &Proxy) -> (Store, Semaphore) {
    let pause = Duration::from_secs(1);
    let store = proxy.store().deadline(PATIENT);
    let store = store.breaker(1, pause, pause);
    let semaphore = semaphore(&store, 1).poll(POLL);
    (store, semaphore)
}

/// One who waits with a ticket, until the store is cut off, so that nothing is sent any more.
async fn cut_off(server: &Server, proxy: &Proxy, store: &Store, semaphore: &Semaphore) -> Waiter {
    let waiter = tokio::spawn(semaphore.acquire());
    until(async || tickets(server) == 1).await;
    proxy.set(Mode::Reset);
    until(async || {
        let _ = semaphore.available().await;
        store.is_broken()
    })
    .await;
    waiter
}

#[test]
fn acquire_that_fails_leaves_no_ticket() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let holder = semaphore(&server.store(), 1);
        let lease = holder.acquire().await.unwrap();
        let (store, semaphore) = behind(&proxy).await;
        let waiter = cut_off(server, &proxy, &store, &semaphore).await;
        // It is asked for at once.
        semaphore.set_permits(1);
        let refused = waiter.await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Store);
        assert_eq!(tickets(server), 1);
        proxy.set(Mode::Pass);
        until(async || tickets(server) == 0).await;
        // So it is in nobody's way.
        lease.release().await.unwrap();
        drop(holder.try_acquire().await.unwrap());
    });
}

#[test]
fn acquire_dropped_without_a_server_leaves_no_ticket() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let _lease = semaphore(&server.store(), 1).acquire().await.unwrap();
        let (store, semaphore) = behind(&proxy).await;
        let waiter = cut_off(server, &proxy, &store, &semaphore).await;
        waiter.abort();
        until(async || semaphore.waiting() == 0).await;
        assert_eq!(tickets(server), 1);
        proxy.set(Mode::Pass);
        until(async || tickets(server) == 0).await;
    });
}

#[test]
fn acquire_that_failed_half_way_is_given_back() {
    on_server(async |server| {
        let () = ask(
            server,
            &["SET", "{jobs}/semaphore/fences", "something else"],
        );
        let store = server.store();
        let semaphore = semaphore(&store, 1);
        let refused = semaphore.acquire().await.unwrap_err();
        assert_eq!(failure(&refused), StoreError::WrongType);
        // The call that learns the server's time, the one that fails, and the one that gives back, once.
        until(async || store.calls() == 3).await;
        until(async || members(server, KEY) == 0).await;
    });
}
