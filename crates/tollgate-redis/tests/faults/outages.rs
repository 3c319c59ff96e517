//! Tests a server that is killed and comes back empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::ErrorKind;
use tollgate_redis::{Fallback, RateLimiter, Source, Store, StoreError};

use super::help::{
    DEADLINE, PATIENT, Tally, behind_proxy, charged, crowd, ends, failure, limiter, recovers, slow,
    until,
};
use crate::support::proxy::{Mode, Proxy};
use crate::support::server::Server;
use crate::support::{ask, on_server, runtime};

#[test]
fn acquire_through_a_restart_admits_one_more_burst_at_most() {
    on_server(async |server| {
        let store = server.store();
        // A new limiter has no cached denial, as if each caller were another process.
        let fresh = move || RateLimiter::new(&store, "k", slow(100));
        let stop = Arc::new(AtomicBool::new(false));
        let load: Vec<_> = (0..4)
            .map(|_| {
                let (fresh, stop) = (fresh.clone(), Arc::clone(&stop));
                tokio::spawn(async move {
                    let mut tally = Tally::default();
                    while !stop.load(Ordering::Relaxed) {
                        tally.add(ends(fresh().try_acquire()).await);
                        tokio::task::yield_now().await;
                    }
                    tally
                })
            })
            .collect();
        for restart in 0..=3 {
            if restart > 0 {
                server.kill();
                let tally = crowd(&fresh(), 50).await;
                assert_eq!(tally.errors.len(), 50);
                server.restart();
            }
            until(async || {
                let left = fresh().peek(0).await;
                left.is_ok_and(|left| left.remaining == 0)
            })
            .await;
        }
        stop.store(true, Ordering::Relaxed);
        let (mut admitted, mut perhaps) = (0, 0);
        for task in load {
            let tally = task.await.unwrap();
            admitted += tally.admitted();
            perhaps += tally.perhaps_charged();
        }
        // One burst for each life of the server, except for charges whose replies were lost.
        assert!(admitted <= 400, "{admitted}");
        assert!(admitted + perhaps >= 400, "{admitted}, perhaps {perhaps}");
    });
}

#[test]
fn acquire_after_a_restart_has_exactly_one_more_burst() {
    on_server(async |server| {
        let store = server.store();
        let limiter = limiter(&store, 100).await;
        limiter.acquire_many(100).await.unwrap();
        server.kill();
        server.restart();
        recovers(&limiter).await;
        assert_eq!(charged(&limiter).await, 0);
        limiter.acquire_many(100).await.unwrap();
        let refused = limiter.try_acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
    });
}

#[test]
fn acquire_without_a_server_failing_closed_admits_nobody() {
    on_server(async |server| {
        let store = server.store();
        let limiter = limiter(&store, 1000).await;
        server.kill();
        let tally = crowd(&limiter, 100).await;
        assert_eq!((tally.admitted(), tally.errors.len()), (0, 100));
        while !store.is_broken() {
            ends(limiter.try_acquire()).await.unwrap_err();
        }
        assert_eq!(limiter.waiting(), 0);
        server.restart();
        recovers(&limiter).await;
        assert_eq!(limiter.acquire().await.unwrap().source(), Source::Store);
    });
}

#[test]
fn acquire_without_a_server_failing_open_admits_everybody() {
    on_server(async |server| {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(10)).fallback(Fallback::FailOpen);
        recovers(&limiter).await;
        server.kill();
        let tally = crowd(&limiter, 100).await;
        assert_eq!(tally.admitted(), 100);
        assert!(tally.is_all_from(Source::Fallback));
        server.restart();
        recovers(&limiter).await;
        assert_eq!(limiter.acquire().await.unwrap().source(), Source::Store);
        assert_eq!(charged(&limiter).await, 1);
    });
}

#[test]
fn acquire_without_a_server_uses_the_share_until_it_is_back() {
    on_server(async |server| {
        let store = server.store();
        let local = Fallback::Local { share: 4 };
        let limiter = RateLimiter::new(&store, "k", slow(100)).fallback(local);
        recovers(&limiter).await;
        server.kill();
        let tally = crowd(&limiter, 100).await;
        assert_eq!((tally.admitted(), tally.limited), (25, 75));
        assert!(tally.is_all_from(Source::Fallback));
        // With its share alone this caller would wait for most of an hour.
        let waits = tokio::spawn(limiter.acquire());
        server.restart();
        recovers(&limiter).await;
        let charge = ends(waits).await.unwrap().unwrap();
        assert_eq!(charge.source(), Source::Store);
        assert_eq!(
            ends(limiter.try_acquire()).await.unwrap().source(),
            Source::Store
        );
    });
}

#[test]
fn is_broken_after_the_breaker_opened_lasts_until_a_reply() {
    on_server(async |server| {
        let pause = Duration::from_millis(50);
        let store = server.store().breaker(2, pause, pause);
        let limiter = RateLimiter::new(&store, "k", slow(10));
        let says = || format!("{store:?}").contains("is_broken: true");
        recovers(&limiter).await;
        assert!(!store.is_broken() && !says());
        server.kill();
        until(async || limiter.peek(0).await == Err(StoreError::BreakerOpen)).await;
        assert!(store.is_broken() && says());
        // The pause is over, and calls are sent, one by one.
        for _ in 0..2 {
            until(async || limiter.peek(0).await == Err(StoreError::Unavailable)).await;
            assert!(store.is_broken() && says());
        }
        server.restart();
        recovers(&limiter).await;
        assert!(!store.is_broken() && !says());
    });
}

// A replica that takes the place of its primary.

fn replicate(replica: &Server, primary: u16) {
    ask::<()>(replica, &["REPLICAOF", "127.0.0.1", &primary.to_string()]);
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
        // A server that is still a replica reports that.
        let mut tally = Tally::default();
        while !tally.errors.contains(&StoreError::ReadOnly) {
            tally.add(ends(limiter.try_acquire()).await);
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
        // The connection to the old server stays open, and is useless.
        until(async || match ends(limiter.try_acquire()).await {
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

// A network that is cut in every way.

/// Every mode except one ends all calls with an error.
const CUTS: [Mode; 5] = [
    Mode::BlackHole,
    Mode::Reset,
    Mode::HalfOpen,
    Mode::DropReplies,
    Mode::Delay(Duration::from_millis(1000)),
];

/// Several keys at once, so that there are several calls on the connection.
fn limiters(store: &Store) -> Vec<RateLimiter> {
    let limiter =
        |number: usize| RateLimiter::new(store, format!("k{number}"), slow(1000)).coalesce(false);
    (0..8).map(limiter).collect()
}

async fn crowds(limiters: &[RateLimiter], callers: usize) -> Tally {
    let mut tasks = tokio::task::JoinSet::new();
    for limiter in limiters {
        let limiter = limiter.clone();
        tasks.spawn(async move { crowd(&limiter, callers).await });
    }
    let mut all = Tally::default();
    while let Some(tally) = tasks.join_next().await {
        let tally = tally.unwrap();
        all.charges.extend(tally.charges);
        all.errors.extend(tally.errors);
    }
    all
}

async fn all_charged(server: &Server) -> u64 {
    let mut all = 0;
    for limiter in limiters(&server.store()) {
        all += charged(&limiter).await;
    }
    all
}

#[test]
fn acquire_in_a_partition_ends_and_says_what_may_be_charged() {
    for cut in CUTS {
        let server = Server::start();
        runtime().block_on(async {
            let proxy = Proxy::start(server.port()).await;
            let store = proxy.store().deadline(DEADLINE);
            let limiters = limiters(&store);
            recovers(&limiters[0]).await;
            let admitted = crowds(&limiters, 1).await;

            proxy.set(cut);
            let mut failed = crowds(&limiters, 20).await;
            until(async || {
                failed.add(ends(limiters[0].try_acquire()).await);
                store.is_broken()
            })
            .await;
            // A connection that is cut at once may have received its reply.
            if cut != Mode::Reset {
                assert_eq!(failed.admitted(), 0, "{cut:?}");
            }
            assert!(limiters.iter().all(|limiter| limiter.waiting() == 0));

            proxy.set(Mode::Pass);
            for limiter in &limiters {
                recovers(limiter).await;
            }
            let after = crowds(&limiters, 2).await;
            let all = [&admitted, &failed, &after];
            let certain: u64 = all.iter().map(|tally| tally.admitted()).sum();
            let perhaps: u64 = all.iter().map(|tally| tally.perhaps_charged()).sum();
            let charged = all_charged(&server).await;
            assert!(
                (certain..=certain + perhaps).contains(&charged),
                "{cut:?}: {certain} and perhaps {perhaps} more are admitted, {charged} charged"
            );
            assert!(charged <= store.calls(), "{cut:?}");
        });
    }
}

#[test]
fn acquire_with_lost_replies_charges_at_most_the_calls() {
    on_server(async |server| {
        let (proxy, store, limiter) = behind_proxy(server, 1000).await;
        proxy.set(Mode::DropReplies);
        let calls = store.calls();
        let error = ends(limiter.try_acquire()).await.unwrap_err();
        assert!(super::help::failure(&error).is_perhaps_charged());
        assert_eq!(store.calls(), calls + 1);
        let direct = RateLimiter::new(&server.store(), "k", slow(1000));
        until(async || charged(&direct).await == 1).await;
    });
}

#[test]
fn acquire_on_a_half_open_connection_reconnects() {
    on_server(async |server| {
        let (proxy, _, limiter) = behind_proxy(server, 1000).await;
        let accepted = proxy.accepted();
        proxy.set(Mode::HalfOpen);
        let error = ends(limiter.try_acquire()).await.unwrap_err();
        assert!(super::help::failure(&error).is_perhaps_charged());
        // From now on all data passes, except on that connection.
        proxy.set(Mode::Pass);
        recovers(&limiter).await;
        assert!(proxy.accepted() > accepted);
    });
}

#[test]
fn acquire_in_a_partition_follows_each_fallback() {
    on_server(async |server| {
        let (proxy, store, _) = behind_proxy(server, 10).await;
        let open = RateLimiter::new(&store, "open", slow(10)).fallback(Fallback::FailOpen);
        let local =
            RateLimiter::new(&store, "local", slow(10)).fallback(Fallback::Local { share: 2 });
        proxy.set(Mode::BlackHole);
        let tally = crowd(&open, 50).await;
        assert_eq!(tally.admitted(), 50);
        assert!(tally.is_all_from(Source::Fallback));
        let tally = crowd(&local, 50).await;
        assert_eq!((tally.admitted(), tally.limited), (5, 45));
        proxy.set(Mode::Pass);
        recovers(&open).await;
        until(async || {
            let charge = ends(local.acquire()).await.unwrap();
            charge.source() == Source::Store
        })
        .await;
    });
}

#[test]
fn acquire_by_ten_thousand_waiters_in_a_partition_ends() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let store = proxy.store().deadline(DEADLINE);
        // One call after another, and no call ends before its deadline.
        let store = store.breaker(1000, Duration::ZERO, Duration::ZERO);
        let limiter = RateLimiter::new(&store, "k", slow(100_000)).coalesce(false);
        recovers(&limiter).await;
        proxy.set(Mode::BlackHole);
        let tally = crowd(&limiter, 10_000).await;
        assert_eq!(tally.errors.len(), 10_000);
        assert_eq!(limiter.waiting(), 0);
    });
}
