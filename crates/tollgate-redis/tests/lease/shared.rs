//! Tests semaphores that processes share; two stores stand for two processes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tollgate::{AcquireError, ErrorKind};
use tollgate_redis::{Lease, RateLimiter, Semaphore, Store, StoreError};

use super::verbs::{KEY, PATIENT, members, semaphore, tickets, until, until_free};
use crate::support::proxy::{Mode, Proxy};
use crate::support::server::Server;
use crate::support::{ask, failure, on_server, runtime, slow};

#[test]
fn acquire_by_many_holds_at_most_the_permits() {
    on_server(async |server| {
        let all = [(); 2].map(|()| semaphore(&server.store(), 3));
        let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..60)
            .map(|index: usize| {
                let semaphore = all[index % 2].clone();
                let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
                let n = 1 + index % 3;
                tokio::spawn(async move {
                    let mut fencing = Vec::new();
                    for _ in 0..4 {
                        let lease = semaphore.acquire_many(n as u32).await.unwrap();
                        let now = n + inside.fetch_add(n, Ordering::SeqCst);
                        most.fetch_max(now, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(n, Ordering::SeqCst);
                        fencing.push(lease.fencing());
                    }
                    fencing
                })
            })
            .collect();
        let mut fencing = Vec::new();
        for task in tasks {
            fencing.extend(task.await.unwrap());
        }
        assert!(most.load(Ordering::SeqCst) <= 3);
        fencing.sort_unstable();
        fencing.dedup();
        assert_eq!(fencing.len(), 240, "no number is given twice");
        until_free(&all[0], 3).await;
    });
}

#[test]
fn fencing_of_later_holders_rises() {
    on_server(async |server| {
        let all = [(); 2].map(|()| semaphore(&server.store(), 1));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..30)
            .map(|index: usize| {
                let (semaphore, seen) = (all[index % 2].clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    let lease = semaphore.acquire().await.unwrap();
                    seen.lock().unwrap().push(lease.fencing());
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 30);
        assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
    });
}

#[test]
fn acquire_over_processes_is_in_ticket_order() {
    on_server(async |server| {
        let all = [(); 2].map(|()| semaphore(&server.store(), 2));
        let held = all[0].acquire_many(2).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        // The large requests are not overtaken, although there is room for a small one earlier.
        for (index, n) in [1, 2, 1, 2, 2, 1, 2].into_iter().enumerate() {
            let (semaphore, order) = (all[index % 2].clone(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let lease = semaphore.acquire_many(n).await.unwrap();
                order.lock().unwrap().push((lease.fencing(), index));
            }));
            until(async || tickets(server) == index + 1).await;
        }
        drop(held);
        for task in tasks {
            task.await.unwrap();
        }
        let mut order = order.lock().unwrap().clone();
        order.sort_unstable();
        let order: Vec<_> = order.into_iter().map(|(_, index)| index).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6]);
    });
}

#[test]
fn release_passes_a_dead_waiter() {
    on_server(async |server| {
        let live = semaphore(&server.store(), 1);
        let held = live.acquire().await.unwrap();
        // Another process waits, and ends.
        let () = ask(
            server,
            &["ACL", "SETUSER", "dying", "on", ">secret", "~*", "+@all"],
        );
        let other = runtime();
        let address = server.address().replace("//", "//dying:secret@");
        let waiting = other.spawn(async move {
            let dying = semaphore(&Store::new(&address).unwrap(), 1);
            dying.acquire().await
        });
        until(async || tickets(server) == 1).await;
        let ended = tokio::task::spawn_blocking(move || drop(other));
        ended.await.unwrap();
        drop(waiting);
        // While the server has its connection, it may execute a last request, and grant it the lease.
        let connected = || ask::<String>(server, &["CLIENT", "LIST"]).contains("user=dying");
        until(async || !connected()).await;

        let second = tokio::spawn(live.acquire());
        drop(held);
        drop(second.await.unwrap().unwrap());
        until(async || tickets(server) == 0).await;
    });
}

#[test]
fn acquire_repeated_after_a_lost_reply_gives_the_same_lease() {
    on_server(async |server| {
        let store = server.store().deadline(Duration::from_millis(300));
        let semaphore = semaphore(&store, 5);
        semaphore.available().await.unwrap();
        let before = store.calls();
        server.stop();
        let acquire = tokio::spawn(semaphore.acquire_many(2));
        // The first call got no reply, and the second one is in flight.
        until(async || store.calls() == before + 2).await;
        server.go_on();
        let lease = acquire.await.unwrap().unwrap();
        assert_eq!((lease.count(), members(server, KEY)), (2, 2));
        lease.release().await.unwrap();
        assert_eq!(members(server, KEY), 0);
    });
}

#[test]
fn acquire_that_failed_gives_back_what_was_perhaps_granted() {
    on_server(async |server| {
        let store = server.store().deadline(Duration::from_millis(30));
        let semaphore = semaphore(&store, 5);
        until(async || semaphore.available().await.is_ok()).await;
        let before = store.calls();
        server.stop();
        semaphore.try_acquire().await.unwrap_err();
        server.go_on();
        // Both calls are executed, and then the release.
        until(async || store.calls() >= before + 3 && semaphore.available().await == Ok(5)).await;
        until(async || members(server, KEY) == 0).await;
    });
}

#[test]
fn ticket_lost_on_the_server_keeps_its_number() {
    on_server(async |server| {
        let semaphore = semaphore(&server.store(), 1);
        let held = semaphore.acquire().await.unwrap();
        let mut tasks = Vec::new();
        for index in 0..3 {
            tasks.push(tokio::spawn(semaphore.acquire()));
            until(async || tickets(server) == index + 1).await;
        }
        let before = numbers(server);
        let () = ask(
            server,
            &["DEL", "{jobs}/semaphore/tickets", "{jobs}/semaphore/ends"],
        );
        until(async || tickets(server) == 3).await;
        assert_eq!(numbers(server), before);
        drop(held);
        for task in tasks {
            drop(task.await.unwrap().unwrap());
        }
    });
}

#[test]
fn acquire_of_names_that_look_alike_is_of_other_semaphores() {
    on_server(async |server| {
        let store = server.store();
        let mut held = Vec::new();
        for (index, name) in ["col", "{col}", "col}", "{col}:tickets", ""]
            .iter()
            .enumerate()
        {
            let semaphore = Semaphore::new(&store, *name, 1).grace(Duration::ZERO);
            // No caller waits for this permit yet.
            held.push(semaphore.try_acquire().await.unwrap());
            let _waits = tokio::spawn(semaphore.acquire());
            until(async || ask::<Vec<String>>(server, &["KEYS", "*tickets"]).len() > index).await;
        }
        // A rate limit with the name of a semaphore is a separate limit.
        let limiter = RateLimiter::new(&store, "col", slow(1));
        limiter.try_acquire().await.unwrap();
    });
}

// Callers that get a failure leave no data on the server.

/// Longer than a test, so that nobody polls.
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

/// Starts a caller that waits with a ticket, and cuts the store off, so that no more calls are sent.
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

/// Returns the numbers of the tickets, in their order.
fn numbers(server: &Server) -> Vec<String> {
    let all = [
        "ZRANGE",
        "{jobs}/semaphore/tickets",
        "0",
        "-1",
        "WITHSCORES",
    ];
    ask(server, &all)
}

/// Returns the number of processes that receive messages.
fn subscribed(server: &Server) -> usize {
    ask::<Vec<String>>(server, &["PUBSUB", "CHANNELS", "tollgate:*"]).len()
}

#[test]
fn acquire_through_an_outage_keeps_its_place() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let holder = semaphore(&server.store(), 1);
        let lease = holder.acquire().await.unwrap();
        let (store, semaphore) = behind(&proxy).await;
        let waiter = cut_off(server, &proxy, &store, &semaphore).await;
        let before = numbers(server);
        // The driver calls at once, and fails. A call that does not wait gets the error.
        semaphore.set_permits(1);
        until(async || store.last_failure().is_some()).await;
        assert_eq!((semaphore.waiting(), numbers(server)), (1, before));
        proxy.set(Mode::Pass);
        let next = tokio::spawn(holder.acquire());
        until(async || subscribed(server) == 2 && tickets(server) == 2).await;
        lease.release().await.unwrap();
        let first = waiter.await.unwrap().unwrap();
        assert!(!next.is_finished());
        first.release().await.unwrap();
        drop(next.await.unwrap().unwrap());
    });
}

#[test]
fn acquire_while_the_server_is_stopped_waits_and_keeps_its_timeout() {
    on_server(async |server| {
        let store = server.store().deadline(Duration::from_millis(30));
        let semaphore = semaphore(&store, 1);
        let held = semaphore.acquire().await.unwrap();
        let patient = semaphore.acquire().timeout(Duration::from_secs(600));
        let patient = tokio::spawn(patient);
        until(async || tickets(server) == 1).await;
        server.stop();
        let refused = semaphore
            .acquire()
            .timeout(Duration::from_millis(300))
            .await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(!patient.is_finished());
        server.go_on();
        held.release().await.ok();
        drop(patient.await.unwrap().unwrap());
        until(async || tickets(server) == 0).await;
    });
}

/// More waiters than a process has tickets in the line.
const MANY: usize = 70;

#[test]
fn try_acquire_behind_many_waiters_in_an_outage_gets_the_error() {
    on_server(async |server| {
        let semaphore = semaphore(&server.store(), 1);
        server.kill();
        let _waiters: Vec<_> = (0..MANY)
            .map(|_| tokio::spawn(semaphore.acquire()))
            .collect();
        until(async || semaphore.waiting() == MANY).await;
        let refused = tokio::spawn(semaphore.try_acquire());
        until(async || refused.is_finished()).await;
        assert_eq!(refused.await.unwrap().unwrap_err().kind(), ErrorKind::Store);
        assert_eq!(semaphore.waiting(), MANY);
    });
}

#[test]
fn try_acquire_behind_many_waiters_without_tickets_is_refused() {
    on_server(async |server| {
        let _held = semaphore(&server.store(), 1).acquire().await.unwrap();
        let semaphore = semaphore(&server.store().deadline(PATIENT), 1);
        until(async || semaphore.available().await == Ok(0)).await;
        server.stop();
        let _waiters: Vec<_> = (0..MANY)
            .map(|_| tokio::spawn(semaphore.acquire()))
            .collect();
        until(async || semaphore.waiting() == MANY).await;
        // The first waiters have asked, and have no answer.
        let refused = tokio::spawn(semaphore.try_acquire());
        until(async || semaphore.waiting() == MANY + 1).await;
        server.go_on();
        until(async || refused.is_finished()).await;
        assert_eq!(
            refused.await.unwrap().unwrap_err().kind(),
            ErrorKind::NoPermits
        );
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
        let () = ask(server, &["SET", "{jobs}/semaphore/waits", "something else"]);
        let store = server.store();
        let semaphore = semaphore(&store, 0);
        let refused = semaphore.acquire().await.unwrap_err();
        assert_eq!(failure(&refused), StoreError::WrongType);
        // Three calls: the one that learns the server's time, the one that fails, and the one that returns
        // the ticket, once.
        until(async || store.calls() == 3).await;
        until(async || tickets(server) == 0).await;
    });
}
