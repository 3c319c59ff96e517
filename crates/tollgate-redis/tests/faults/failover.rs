//! A replica that takes the place of its primary.

use tollgate::ErrorKind;
use tollgate_redis::StoreError;

use super::help::{PATIENT, Tally, charged, ends, failure, limiter, recovers, until};
use crate::support::proxy::{Mode, Proxy};
use crate::support::server::Server;
use crate::support::{ask, runtime};

fn replicate(replica: &Server, primary: u16) {
    ask(replica, &["REPLICAOF", "127.0.0.1", &primary.to_string()])
}

fn value(server: &Server) -> Option<String> {
    ask(server, &["GET", "k"])
}

#[test]
fn acquire_after_a_failover_admits_again_at_most_what_was_not_replicated() {
    let mut primary = Server::with(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start();
    runtime().block_on(async {
        let (front, between) = (
            Proxy::start(primary.port()).await,
            Proxy::start(primary.port()).await,
        );
        replicate(&replica, between.port());
        let store = front.store().deadline(PATIENT);
        let limiter = limiter(&store, 100).await;
        let mut admitted = limiter.charge(30).await.unwrap().cost();
        until(async || value(&replica).is_some() && value(&replica) == value(&primary)).await;

        between.set(Mode::HalfOpen);
        admitted += limiter.charge(20).await.unwrap().cost();
        primary.kill();
        front.lead_to(replica.port());
        // What is still a replica says so.
        let mut tally = Tally::default();
        while !tally.errors.contains(&StoreError::ReadOnly) {
            tally.add(ends(limiter.acquire()).await);
        }
        assert_eq!(tally.admitted(), 0);

        let () = ask(&replica, &["REPLICAOF", "NO", "ONE"]);
        recovers(&limiter).await;
        assert_eq!(charged(&limiter).await, 30);
        until(async || limiter.acquire_many(70).await.is_ok()).await;
        admitted += 70;
        let refused = limiter.try_acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
        assert_eq!(admitted, 100 + 20);
    });
}

#[test]
fn acquire_on_a_primary_that_became_a_replica_reconnects() {
    let (old, new) = (Server::start(), Server::start());
    runtime().block_on(async {
        let front = Proxy::start(old.port()).await;
        let store = front.store().deadline(PATIENT);
        let limiter = limiter(&store, 100).await;
        limiter.charge(1).await.unwrap();
        replicate(&old, new.port());
        front.lead_to(new.port());
        // The connection to the old one stands, and is of no use.
        until(async || match ends(limiter.acquire()).await {
            Ok(_) => true,
            Err(error) => {
                let _typed = failure(&error);
                false
            }
        })
        .await;
        assert!(value(&new).is_some());
    });
}
