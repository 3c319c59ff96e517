//! How leases are kept and lost.

use std::time::{Duration, Instant};

use tollgate_redis::Store;

use super::look::{KEY, is_old, members, score, semaphore, tickets, until, until_free};
use crate::support::server::Server;
use crate::support::{ask, on_server, one_thread, runtime};

/// Renewed after at most 100 milliseconds, and lost after 281 without a renewal.
const TTL: Duration = Duration::from_millis(300);

/// For leases that are to stay, also on a slow machine.
const SLOW: Duration = Duration::from_secs(2);

#[test]
fn lease_held_beyond_its_ttl_renews_itself() {
    on_server(async |server| {
        let ttl = Duration::from_secs(3);
        let semaphore = semaphore(&server.store(), 2).ttl(ttl);
        let lease = semaphore.acquire_many(2).await.unwrap();
        let first = score(server, lease.id()).unwrap();
        // For longer than it would have lasted.
        let longer = first + ttl.as_micros() as f64;
        until(async || score(server, lease.id()).unwrap() > longer).await;
        let other = format!("{}:1", lease.id());
        assert!(score(server, &other).unwrap() > first);
        assert!(!lease.is_lost() && !lease.token().is_cancelled());
        assert_eq!(semaphore.available().await.unwrap(), 0);
    });
}

#[test]
fn lease_removed_on_the_server_is_lost() {
    on_server(async |server| {
        is_old(server);
        let semaphore = semaphore(&server.store(), 5).ttl(SLOW);
        let (one, two) = (semaphore.acquire().await, semaphore.acquire_many(2).await);
        let (one, two) = (one.unwrap(), two.unwrap());
        for (lease, member) in [
            (&one, one.id().to_owned()),
            (&two, format!("{}:1", two.id())),
        ] {
            assert!(!lease.is_lost());
            let () = ask(server, &["ZREM", KEY, &member]);
            lease.token().cancelled().await;
            assert!(lease.is_lost());
        }
        // Nothing of them is left.
        until(async || members(server, KEY) == 0).await;
        one.release().await.unwrap();
        until_free(&semaphore, 5).await;
    });
}

#[test]
fn leases_of_a_removed_key_are_lost() {
    on_server(async |server| {
        is_old(server);
        let semaphore = semaphore(&server.store(), 2).ttl(Duration::from_secs(6));
        let begun = Instant::now();
        let leases = [
            semaphore.acquire().await.unwrap(),
            semaphore.acquire().await.unwrap(),
        ];
        let () = ask(server, &["DEL", KEY]);
        for lease in &leases {
            lease.token().cancelled().await;
        }
        // When they are renewed, and not when their time is over.
        assert!(begun.elapsed() < Duration::from_secs(5));
        until_free(&semaphore, 2).await;
    });
}

#[test]
fn lease_newer_than_the_data_is_asserted_again() {
    on_server(async |server| {
        is_old(server);
        // As after a failover to a replica that has missed the grant; the sentinel is old.
        let semaphore = semaphore(&server.store(), 2).ttl(SLOW);
        let lease = semaphore.acquire_many(2).await.unwrap();
        let (id, fencing) = (lease.id().to_owned(), lease.fencing());
        let () = ask(
            server,
            &[
                "DEL",
                KEY,
                "{jobs}/semaphore/fences",
                "{jobs}/semaphore/state",
            ],
        );
        until(async || score(server, &id).is_some()).await;
        assert!(!lease.is_lost());
        assert_eq!(lease.fencing(), fencing);
        lease.release().await.unwrap();
        let next = semaphore.acquire().await.unwrap();
        assert!(next.fencing() > fencing);
    });
}

#[test]
fn lease_without_a_server_is_lost_in_time() {
    on_server(async |server| {
        let semaphore = semaphore(&server.store(), 2).ttl(TTL);
        let begun = Instant::now();
        let lease = semaphore.acquire().await.unwrap();
        let granted = Instant::now();
        server.kill();
        lease.token().cancelled().await;
        assert!(begun.elapsed() > TTL / 2, "not at the first failure");
        assert!(lease.is_lost());
        // Whatever the timers did, it says so when its time is over.
        let second = granted + TTL;
        tokio::time::sleep_until(second.into()).await;
        assert!(lease.is_lost());
        lease.release().await.unwrap();
    });
}

#[test]
fn lease_through_a_short_outage_is_kept() {
    let mut server = Server::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    runtime().block_on(async {
        let semaphore = semaphore(&server.store(), 1).ttl(Duration::from_secs(9));
        let lease = semaphore.acquire().await.unwrap();
        let first = score(&server, lease.id()).unwrap();
        // What it held is on disk.
        server.restart();
        until(async || score(&server, lease.id()).is_some_and(|now| now > first)).await;
        assert!(!lease.is_lost());
        assert_eq!(members(&server, KEY), 1);
    });
}

#[test]
fn lease_in_a_partition_is_lost_before_another_is_granted() {
    let server = Server::start();
    let holder = ["ACL", "SETUSER", "holder", "on", ">secret", "~*", "+@all"];
    let () = ask(&server, &holder);
    runtime().block_on(async {
        let address = server.address().replace("//", "//holder:secret@");
        let holder = semaphore(&Store::new(&address).unwrap(), 1).ttl(SLOW);
        let other = semaphore(&server.store(), 1).ttl(SLOW);
        let lease = holder.acquire().await.unwrap();
        let first = score(&server, lease.id()).unwrap();
        until(async || score(&server, lease.id()).is_some_and(|now| now > first)).await;
        let () = ask(&server, &["ACL", "SETUSER", "holder", "off"]);
        let () = ask(&server, &["CLIENT", "KILL", "USER", "holder"]);
        let next = other.acquire().await.unwrap();
        assert!(lease.is_lost());
        assert!(next.fencing() > lease.fencing() && !next.is_lost());
    });
}

#[test]
fn lease_of_a_paused_process_is_lost_at_once() {
    let server = Server::start();
    one_thread().block_on(async {
        let semaphore = semaphore(&server.store(), 1).ttl(TTL);
        let lease = semaphore.acquire().await.unwrap();
        // The only thread: nothing of this process runs meanwhile.
        let (_nobody, says) = std::sync::mpsc::channel::<()>();
        says.recv_timeout(TTL).unwrap_err();
        assert!(lease.is_lost());
        assert!(!lease.token().is_cancelled(), "nobody could do so");
        lease.token().cancelled().await;
    });
}

#[test]
fn release_without_a_server_is_repeated_later() {
    let mut server = Server::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    runtime().block_on(async {
        let semaphore = semaphore(&server.store(), 1);
        let lease = semaphore.acquire().await.unwrap();
        server.kill();
        lease.release().await.unwrap_err();
        server.restart();
        until_free(&semaphore, 1).await;
    });
}

/// Also while the breaker lets no call through, for however long.
#[test]
fn token_of_a_lost_lease_is_cancelled_in_time() {
    on_server(async |server| {
        is_old(server);
        let hour = Duration::from_secs(3_600);
        let store = server.store().breaker(1, hour, hour);
        let lease = semaphore(&store, 1).ttl(TTL).acquire().await.unwrap();
        server.kill();
        lease.token().cancelled().await;
        assert!(lease.is_lost());
        assert!(store.is_broken());
    });
}

/// The connections to a server, by their numbers.
fn connections(server: &Server) -> Vec<u64> {
    let text: String = ask(server, &["CLIENT", "LIST"]);
    let ids = text.lines().filter_map(|line| line.strip_prefix("id="));
    let ids = ids.map(|rest| rest.split(' ').next().unwrap().parse().unwrap());
    ids.collect()
}

/// What a server executes after its callers have left is no lease of anybody, and no ticket.
#[test]
fn acquire_that_a_stopped_server_executes_later_grants_nothing() {
    on_server(async |server| {
        is_old(server);
        let ttl = Duration::from_secs(1);
        let store = server.store().deadline(ttl / 4);
        // Each with a call of its own.
        let semaphores: Vec<_> = (0..20).map(|_| semaphore(&store, 10).ttl(ttl)).collect();
        // It is known that the server answers; and one holder will be late with a renewal.
        let lease = semaphores[0].acquire_many(3).await.unwrap();
        let before = connections(server);
        server.stop();
        let stopped = Instant::now();
        let mut calls = tokio::task::JoinSet::new();
        for semaphore in &semaphores {
            calls.spawn(semaphore.acquire());
        }
        for answer in calls.join_all().await {
            answer.unwrap_err();
        }
        lease.token().cancelled().await;
        // Nobody releases any more what was perhaps granted by then.
        until(async || stopped.elapsed() > ttl * 3).await;
        server.go_on();
        // The server has read everything that was sent to it.
        until(async || !connections(server).iter().any(|id| before.contains(id))).await;
        assert_eq!((members(server, KEY), tickets(server)), (0, 0));
        let all = semaphore(&server.store(), 10).try_acquire_many(10).await;
        assert_eq!(all.unwrap().count(), 10);
    });
}
