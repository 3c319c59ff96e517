//! A network that is cut in every way.

use std::time::Duration;

use tollgate_redis::{Fallback, RateLimiter, Source, Store};

use super::help::{DEADLINE, Tally, behind_proxy, charged, crowd, ends, recovers, slow, until};
use crate::support::proxy::{Mode, Proxy};
use crate::support::server::Server;
use crate::support::{on_server, runtime};

/// Every way but one ends all calls with an error.
const CUTS: [Mode; 5] = [
    Mode::BlackHole,
    Mode::Reset,
    Mode::HalfOpen,
    Mode::DropReplies,
    Mode::Delay(Duration::from_millis(1000)),
];

/// LimitSet keys at once, so that there are several calls on the connection.
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
                failed.add(ends(limiters[0].acquire()).await);
                store.is_broken()
            })
            .await;
            // A connection that is cut at once may have had its answer.
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
        let error = ends(limiter.acquire()).await.unwrap_err();
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
        let error = ends(limiter.acquire()).await.unwrap_err();
        assert!(super::help::failure(&error).is_perhaps_charged());
        // From now on all passes but on that connection.
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
