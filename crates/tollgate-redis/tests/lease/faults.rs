//! Tests how leases are kept and lost.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tollgate::ErrorKind;
use tollgate_redis::{Semaphore, Store, StoreError};

use super::verbs::{KEY, is_old, members, score, semaphore, tickets, until, until_free};
use crate::support::server::Server;
use crate::support::{ask, failure, on_server, one_thread, runtime};

/// Renewed after at most 150 milliseconds, and lost after 281 without a renewal.
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
        // Waits for longer than the lease would have lasted.
        let longer = first + ttl.as_micros() as f64;
        until(async || score(server, lease.id()).unwrap() > longer).await;
        let other = format!("{}:1", lease.id());
        assert!(score(server, &other).unwrap() > first);
        assert!(!lease.is_lost() && !lease.token().is_cancelled());
        assert_eq!(semaphore.available().await.unwrap(), 0);
    });
}

/// Half of the ttl has at most 15 batches, which are renewed together, and 8 more by their size.
#[test]
fn leases_of_a_process_are_renewed_together() {
    on_server(async |server| {
        is_old(server);
        let store = server.store().deadline(SLOW);
        let semaphore = semaphore(&store, 1_000).ttl(Duration::from_secs(9));
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..1_000 {
            calls.spawn(semaphore.acquire());
        }
        let leases = calls.join_all().await;
        let leases: Vec<_> = leases.into_iter().map(Result::unwrap).collect();
        let renewed = || {
            leases
                .iter()
                .map(|lease| score(server, lease.id()).unwrap())
        };
        let (before, first) = (store.calls(), renewed().fold(0.0, f64::max));
        until(async || renewed().all(|score| score > first)).await;
        // The first ones may have been renewed several times meanwhile.
        let halves = 1 + (renewed().fold(0.0, f64::max) - first) as u64 / 4_050_000;
        assert!(
            store.calls() - before <= 2 * 23 * halves,
            "{} calls in {halves} halves",
            store.calls() - before
        );
        assert!(leases.iter().all(|lease| !lease.is_lost()));
        drop(leases);
        until_free(&semaphore, 1_000).await;
    });
}

#[test]
fn lease_on_a_server_without_memory_is_renewed_and_released() {
    on_server(async |server| {
        is_old(server);
        let semaphore = semaphore(&server.store(), 2).ttl(SLOW);
        let lease = semaphore.acquire_many(2).await.unwrap();
        let () = ask(server, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        let () = ask(server, &["CONFIG", "SET", "maxmemory", "1"]);
        let first = score(server, lease.id()).unwrap();
        let longer = first + SLOW.as_micros() as f64;
        until(async || score(server, lease.id()).unwrap() > longer).await;
        assert!(!lease.is_lost());
        lease.release().await.unwrap();
        assert_eq!(members(server, KEY), 0);
        let full = semaphore.try_acquire().await.unwrap_err();
        assert_eq!(failure(&full), StoreError::OutOfMemory);
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
        // The server has no data of them any more.
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
        // The loss is noticed at the renewal, and not at the end of the ttl.
        assert!(begun.elapsed() < Duration::from_secs(5));
        until_free(&semaphore, 2).await;
    });
}

#[test]
fn lease_newer_than_the_data_is_asserted_again() {
    on_server(async |server| {
        is_old(server);
        // Simulates a failover to a replica that has missed the grant; the sentinel is old.
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
        // The lease reports its loss when its time is over, even if timers are late.
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
        // The data of the server is on disk.
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
        // Blocks the only thread, so no task of this process runs meanwhile.
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

/// Holds also while the breaker rejects calls, for any time.
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
        until(async || store.is_broken()).await;
    });
}

/// Returns the connections to a server, by their numbers.
fn connections(server: &Server) -> Vec<u64> {
    let text: String = ask(server, &["CLIENT", "LIST"]);
    let ids = text.lines().filter_map(|line| line.strip_prefix("id="));
    let ids = ids.map(|rest| rest.split(' ').next().unwrap().parse().unwrap());
    ids.collect()
}

/// Calls that a server executes after their callers have left create no lease and no ticket.
#[test]
fn acquire_that_a_stopped_server_executes_later_grants_nothing() {
    on_server(async |server| {
        is_old(server);
        let ttl = Duration::from_secs(1);
        let store = server.store().deadline(ttl / 4);
        // Each semaphore makes its own call.
        let semaphores: Vec<_> = (0..20).map(|_| semaphore(&store, 10).ttl(ttl)).collect();
        // The server is known to answer, and one holder will be late with a renewal.
        let lease = semaphores[0].acquire_many(3).await.unwrap();
        let before = connections(server);
        server.stop();
        let stopped = Instant::now();
        let mut calls = tokio::task::JoinSet::new();
        for semaphore in &semaphores {
            calls.spawn(semaphore.try_acquire());
        }
        for answer in calls.join_all().await {
            answer.unwrap_err();
        }
        lease.token().cancelled().await;
        // By then no caller would release a possible grant any more.
        until(async || stopped.elapsed() > ttl * 3).await;
        server.go_on();
        // The server has read everything that was sent to it.
        until(async || !connections(server).iter().any(|id| before.contains(id))).await;
        assert_eq!((members(server, KEY), tickets(server)), (0, 0));
        let all = semaphore(&server.store(), 10).try_acquire_many(10).await;
        assert_eq!(all.unwrap().count(), 10);
    });
}

// A process that holds a lease and is killed.

/// Where the child finds the server.
const ADDRESS: &str = "TOLLGATE_TEST_SERVER";

const KILLED_TTL: Duration = Duration::from_millis(1_500);

/// The work of the child process, which runs this test. Without an address it does nothing.
#[test]
fn child_holds_a_lease() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    runtime().block_on(async {
        let semaphore = semaphore(&Store::new(&address).unwrap(), 1).ttl(KILLED_TTL);
        let lease = semaphore.acquire().await.unwrap();
        println!("\nfencing {}", lease.fencing());
        std::future::pending::<()>().await;
    });
}

#[test]
fn lease_of_a_killed_process_is_free_after_its_ttl() {
    let server = Server::start();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["lease::faults::child_holds_a_lease", "--exact"])
        .arg("--nocapture")
        .env(ADDRESS, server.address())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let fencing: u64 = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("fencing ")?.parse().ok())
        .expect("the child holds a lease");
    runtime().block_on(async {
        let semaphore = semaphore(&server.store(), 1).ttl(KILLED_TTL);
        semaphore.try_acquire().await.unwrap_err();
        assert_eq!(members(&server, KEY), 1);
        // Kills the child with a signal that cannot be caught.
        child.kill().unwrap();
        child.wait().unwrap();
        let lease = semaphore.acquire().await.unwrap();
        assert!(lease.fencing() > fencing);
        assert_eq!(members(&server, KEY), 1);
    });
}

// The guarantees after the server has lost its data.

/// Long enough for a restart of the server, also on a slow machine.
const RECOVERY_TTL: Duration = Duration::from_secs(3);

fn strict(server: &Server, permits: usize) -> Semaphore {
    let store = server.store().deadline(RECOVERY_TTL / 3);
    let semaphore = Semaphore::new(&store, "jobs", permits);
    semaphore.ttl(RECOVERY_TTL).poll(Duration::from_millis(5))
}

#[test]
fn acquire_after_a_loss_of_data_waits_until_leases_are_asserted() {
    on_server(async |server| {
        let holder = strict(server, 3).grace(Duration::ZERO);
        let leases = [
            holder.acquire().await.unwrap(),
            holder.acquire().await.unwrap(),
        ];
        let dead = holder.acquire().await.unwrap();
        let before = leases[1].fencing();
        server.kill();
        // The third holder ends before the server is back.
        drop(dead);
        server.restart();

        let admitted = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let (newcomer, admitted) = (strict(server, 3), Arc::clone(&admitted));
            let ids = leases.each_ref().map(|lease| lease.id().to_owned());
            let address = server.address();
            tokio::spawn(async move {
                let lease = newcomer.acquire().await.unwrap();
                // Each process that may still hold a lease has asserted it.
                let client = redis::Client::open(address).unwrap();
                let mut connection = client.get_connection().unwrap();
                for id in ids {
                    let score: Option<f64> = redis::cmd("ZSCORE")
                        .arg(KEY)
                        .arg(id)
                        .query(&mut connection)
                        .unwrap();
                    assert!(score.is_some());
                }
                assert!(lease.fencing() > before);
                admitted.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<()>().await;
                drop(lease);
            });
        }
        let refused = strict(server, 3).try_acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoPermits);
        until(async || admitted.load(Ordering::SeqCst) == 1).await;
        // Waits until another caller could have been admitted, if there were room.
        let first = score(server, leases[0].id()).unwrap();
        until(async || score(server, leases[0].id()).unwrap() > first).await;
        assert_eq!(admitted.load(Ordering::SeqCst), 1);
        assert_eq!(members(server, KEY), 3);
        for lease in &leases {
            assert!(!lease.is_lost());
        }
    });
}

#[test]
fn acquire_on_a_new_server_is_delayed_but_not_on_a_new_key() {
    on_server(async |server| {
        let ttl = Duration::from_millis(1_500);
        let store = server.store();
        let first = Semaphore::new(&store, "{a}:one", 1).ttl(ttl);
        let refused = first.try_acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoPermits);
        assert_eq!(first.available().await.unwrap(), 0);
        // The grace time is known to be longer than the timeout, so the call is refused at once.
        let patient = Semaphore::new(&store, "{a}:patient", 1).ttl(Duration::from_secs(3_600));
        let waiting = patient.acquire().timeout(Duration::from_secs(1_800));
        let refused = waiting.await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
        assert!(refused.retry_after().unwrap() > Duration::from_secs(1_800));
        let _first = first.acquire().await.unwrap();
        let second = Semaphore::new(&store, "another", 1).ttl(ttl);
        let _second = second.try_acquire().await.unwrap();
    });
}

#[test]
fn fencing_after_a_loss_of_data_rises() {
    on_server(async |server| {
        let holder = semaphore(&server.store(), 1);
        let mut before = 0;
        for _ in 0..3 {
            let lease = holder.acquire().await.unwrap();
            assert!(lease.fencing() > before);
            before = lease.fencing();
            lease.release().await.unwrap();
            server.restart();
            until(async || holder.available().await.is_ok()).await;
        }
    });
}

#[test]
fn renew_after_flushall_asserts_again() {
    on_server(async |server| {
        let ttl = Duration::from_secs(2);
        let holder = strict(server, 2).ttl(ttl).grace(Duration::ZERO);
        let lease = holder.acquire_many(2).await.unwrap();
        let () = ask(server, &["FLUSHALL"]);
        let newcomer = strict(server, 2).ttl(ttl);
        let waiting = tokio::spawn(newcomer.acquire());
        until(async || score(server, lease.id()).is_some()).await;
        until(async || newcomer.waiting() == 1 && !waiting.is_finished()).await;
        let fencing = lease.fencing();
        assert!(!lease.is_lost());
        lease.release().await.unwrap();
        let next = waiting.await.unwrap().unwrap();
        assert!(next.fencing() > fencing);
        drop(next);
        until_free(&newcomer, 2).await;
    });
}

#[test]
fn keys_without_use_expire_except_the_sentinel() {
    on_server(async |server| {
        let ttl = Duration::from_secs(60);
        let semaphore = semaphore(&server.store(), 1).ttl(ttl);
        let _held = semaphore.acquire().await.unwrap();
        let _waiting = tokio::spawn(semaphore.acquire());
        until(async || members(server, "{jobs}/semaphore/tickets") == 1).await;
        let life = |key: &str| -> i64 { ask(server, &["PTTL", key]) };
        for part in ["leases", "tickets", "ends", "waits"] {
            let key = format!("{{jobs}}/semaphore/{part}");
            assert!((60_000..=120_002).contains(&life(&key)), "{key}");
        }
        assert!((80_000_000..=86_400_001).contains(&life("{jobs}/semaphore/state")));
        assert_eq!(life("tollgate:born"), -1);
        assert_eq!(ask::<usize>(server, &["DBSIZE"]), 6);
    });
}
