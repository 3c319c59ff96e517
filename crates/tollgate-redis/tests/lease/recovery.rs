//! What holds after the server has lost its data.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollgate::ErrorKind;
use tollgate_redis::Semaphore;

use super::look::{KEY, members, score, semaphore, until, until_free};
use crate::support::server::Server;
use crate::support::{ask, on_server};

/// Enough for a server to start again in, also on a slow machine.
const TTL: Duration = Duration::from_secs(3);

fn strict(server: &Server, permits: usize) -> Semaphore {
    let store = server.store().deadline(TTL / 3);
    let semaphore = Semaphore::new(&store, "jobs", permits);
    semaphore.ttl(TTL).poll(Duration::from_millis(5))
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
        // The third one does not live to see the server again.
        drop(dead);
        server.restart();

        let admitted = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let (newcomer, admitted) = (strict(server, 3), Arc::clone(&admitted));
            let ids = leases.each_ref().map(|lease| lease.id().to_owned());
            let address = server.address();
            tokio::spawn(async move {
                let lease = newcomer.acquire().await.unwrap();
                // Each process that may still hold one has said so.
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
        // Until another one could have been admitted, were there room.
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
        // It is known that this is too long, so it is not waited for.
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
        for key in [KEY, "{jobs}/semaphore/fences"] {
            assert!((30_000..=60_002).contains(&life(key)), "{key}");
        }
        for key in ["{jobs}/semaphore/tickets", "{jobs}/semaphore/ends"] {
            until(async || (1..=42).contains(&life(key))).await;
        }
        assert!((80_000_000..=86_400_001).contains(&life("{jobs}/semaphore/state")));
        assert_eq!(life("tollgate:born"), -1);
        assert_eq!(ask::<usize>(server, &["DBSIZE"]), 6);
    });
}
