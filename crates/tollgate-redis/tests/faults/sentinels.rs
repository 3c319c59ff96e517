//! Tests a server that sentinels watch: a failover on request, a crash, and sentinels that do not answer.

use std::time::Duration;

use tollgate_redis::{RateLimiter, Semaphore, Store, StoreError};

use super::help::{PATIENT, failure, slow, until};
use crate::support::server::{Server, Setup, free_port};
use crate::support::{ask, runtime};

/// A primary, its replica, and a sentinel that is enough to promote it.
struct Watched {
    primary: Server,
    replica: Server,
    sentinel: Server,
}

impl Watched {
    fn start() -> Self {
        let primary = Server::start();
        let port = primary.port().to_string();
        let replica = Server::with(&["--replicaof", "127.0.0.1", &port]);
        let until_linked = || {
            let info: String = ask(&replica, &["INFO", "replication"]);
            info.contains("master_link_status:up")
        };
        while !until_linked() {
            std::thread::yield_now();
        }
        let configuration = format!(
            "sentinel monitor limits 127.0.0.1 {port} 1\n\
             sentinel down-after-milliseconds limits 300\n\
             sentinel failover-timeout limits 3000\n"
        );
        let sentinel = Server::start_with(Setup {
            configuration: Some(configuration),
            arguments: vec!["--sentinel".into()],
            ..Setup::default()
        });
        let knows_replica = || {
            let replicas: redis::Value = ask(&sentinel, &["SENTINEL", "REPLICAS", "limits"]);
            matches!(replicas, redis::Value::Array(replicas) if !replicas.is_empty())
        };
        while !knows_replica() {
            std::thread::yield_now();
        }
        Self {
            primary,
            replica,
            sentinel,
        }
    }

    /// Creates a store that knows the sentinel, after one that nobody runs. Call it inside a runtime.
    fn store(&self) -> Store {
        let nobody = format!("redis://127.0.0.1:{}/", free_port());
        let sentinels = [nobody, self.sentinel.address()];
        let store = Store::with_sentinels("redis://limits/", sentinels.iter().map(String::as_str));
        store.unwrap().deadline(PATIENT)
    }
}

/// Returns whether a server is a primary. It is none while it ends its connections, because its role changes.
fn is_primary(server: &Server) -> bool {
    let info = || {
        let mut connection = redis::Client::open(server.address())?.get_connection()?;
        redis::cmd("INFO")
            .arg("replication")
            .query::<String>(&mut connection)
    };
    info().is_ok_and(|info| info.contains("role:master"))
}

fn keys(server: &Server) -> u64 {
    ask(server, &["DBSIZE"])
}

#[test]
fn acquire_after_a_failover_on_request_is_decided_by_the_new_primary() {
    let watched = Watched::start();
    runtime().block_on(async {
        let store = watched.store();
        let limiter = RateLimiter::new(&store, "rate", slow(1000));
        limiter.acquire().await.unwrap();
        assert_eq!(keys(&watched.primary), 1);

        // The sentinel chooses no replica that it has not heard for a while, and gives up one that takes too long.
        until(async || {
            let is_done = is_primary(&watched.replica);
            if !is_done {
                let mut failover = redis::cmd("SENTINEL");
                failover.arg("FAILOVER").arg("limits");
                let _ = failover.query::<()>(&mut watched.sentinel.connection());
            }
            is_done
        })
        .await;
        until(async || !is_primary(&watched.primary)).await;
        let new = RateLimiter::new(&store, "new", slow(1000));
        until(async || new.acquire().await.is_ok()).await;
        assert!(keys(&watched.replica) >= 2);
    });
}

#[test]
fn waiter_of_a_lease_survives_the_crash_of_the_primary() {
    let mut watched = Watched::start();
    runtime().block_on(async {
        let store = watched.store();
        let slots = Semaphore::new(&store, "slots", 1).ttl(Duration::from_secs(3));
        let held = slots.acquire().await.unwrap();
        let waiting = tokio::spawn({
            let slots = slots.clone();
            async move { slots.acquire().await }
        });
        until(async || slots.statistics().waiting == 1).await;
        watched.primary.kill();
        until(async || is_primary(&watched.replica)).await;
        drop(held);
        drop(waiting.await.unwrap().unwrap());
    });
}

#[test]
fn acquire_without_a_sentinel_that_answers_is_unavailable() {
    runtime().block_on(async {
        let nobody = format!("redis://127.0.0.1:{}/", free_port());
        let store = Store::with_sentinels("redis://limits/", [nobody.as_str()]).unwrap();
        let limiter = RateLimiter::new(&store.deadline(PATIENT), "k", slow(1000));
        assert_eq!(
            failure(&limiter.try_acquire().await.unwrap_err()),
            StoreError::Unavailable
        );

        let none: [&str; 0] = [];
        let without = Store::with_sentinels("redis://limits/", none);
        assert_eq!(without.unwrap_err(), StoreError::Misconfigured);
    });
}

#[test]
fn acquire_of_a_name_that_no_sentinel_knows_says_the_name() {
    let watched = Watched::start();
    runtime().block_on(async {
        let sentinels = [watched.sentinel.address()];
        let sentinels = sentinels.iter().map(String::as_str);
        let store = Store::with_sentinels("redis://another/", sentinels).unwrap();
        let store = store.deadline(PATIENT);
        let limiter = RateLimiter::new(&store, "k", slow(1000));
        assert_eq!(
            failure(&limiter.try_acquire().await.unwrap_err()),
            StoreError::Unavailable
        );
        let text = store.last_failure().unwrap();
        assert!(text.contains("another"), "{text}");
    });
}
