//! Tests that a fallback to local shares keeps the quota through an outage: no burst comes twice.

use std::time::Duration;

use tollgate::{Algorithm, ErrorKind, Quota};
use tollgate_redis::{Fallback, LimitSet, RateLimiter, Source, Store};

use super::help::{DEADLINE, charged, failure, recovers, slow, until};
use crate::support::proxy::{Mode, Proxy};
use crate::support::server::Server;
use crate::support::{on_server, runtime};

/// Algorithms that admit the whole burst at once; their windows do not begin while the test runs.
const ALGORITHMS: [Algorithm; 3] = [
    Algorithm::Gcra,
    Algorithm::TokenBucket,
    Algorithm::SlidingLog,
];

const BURST: u64 = 100;

/// Returns a limiter of each process of a fleet, on stores of their own.
fn fleet(proxy: &Proxy, algorithm: Algorithm, share: u32) -> Vec<RateLimiter> {
    let stores = (0..share).map(|_| {
        let store = proxy.store().deadline(DEADLINE);
        store.breaker(2, Duration::from_millis(1), Duration::from_millis(10))
    });
    let limiter = |store: Store| {
        RateLimiter::new(&store, format!("{algorithm}:{share}"), slow(BURST))
            .algorithm(algorithm)
            .fallback(Fallback::Local { share })
    };
    stores.map(limiter).collect()
}

/// Takes units one by one, at most this many, until one is denied by this source. Returns their number.
async fn taken(limiter: &RateLimiter, most: u64, source: Source) -> u64 {
    for count in 0..most {
        match limiter.try_acquire().await {
            Ok(charge) if source == Source::Fallback => assert_eq!(charge.source(), source),
            Ok(charge) => assert_ne!(charge.source(), Source::Fallback),
            Err(error) if error.kind() == ErrorKind::RateLimited => return count,
            Err(error) => panic!("{:?}", failure(&error)),
        }
    }
    most
}

/// Polls the limit until the server decides again.
async fn is_back(proxy: &Proxy, limiter: &RateLimiter) {
    proxy.set(Mode::Pass);
    recovers(limiter).await;
}

#[test]
fn acquire_through_an_outage_admits_one_burst_in_all() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        for (algorithm, share, before) in ALGORITHMS
            .into_iter()
            .flat_map(|it| [(it, 1, 60), (it, 1, 100), (it, 1, 0), (it, 2, 30)])
        {
            let limiters = fleet(&proxy, algorithm, share);
            let mut admitted = 0;
            for limiter in &limiters {
                recovers(limiter).await;
                admitted += taken(limiter, before, Source::Store).await;
            }
            assert_eq!(admitted, before * u64::from(share));

            // Data that are sent meanwhile arrive afterwards: a late call charges nothing.
            proxy.set(Mode::BlackHole);
            for limiter in &limiters {
                admitted += taken(limiter, BURST, Source::Fallback).await;
            }
            assert_eq!(
                admitted, BURST,
                "{algorithm}, {share}: the share is used up"
            );

            // The first call of each process charges what its share has admitted.
            for limiter in &limiters {
                is_back(&proxy, limiter).await;
                until(async || {
                    let error = limiter.try_acquire_many(BURST).await.unwrap_err();
                    Source::of(&error) == Some(Source::Store)
                })
                .await;
            }
            for limiter in &limiters {
                let error = limiter.try_acquire().await.unwrap_err();
                assert_eq!(
                    Source::of(&error),
                    Some(Source::Store),
                    "{algorithm}, {share}"
                );
            }
            // The server counts what the shares have admitted, once.
            let direct = RateLimiter::new(&server.store(), limiters[0].key(), slow(BURST));
            let direct = direct.algorithm(algorithm);
            assert!(charged(&direct).await >= BURST, "{algorithm}");
            let () = crate::support::ask(server, &["DEL", limiters[0].key()]);
        }
    });
}

#[test]
fn acquire_after_a_short_outage_is_charged_only_for_the_outage() {
    let mut server = Server::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    runtime().block_on(async {
        let pause = Duration::from_millis(1);
        let limiter = RateLimiter::new(&server.store().breaker(1, pause, pause), "k", slow(BURST))
            .fallback(Fallback::Local { share: 1 });
        recovers(&limiter).await;
        limiter.acquire_many(40).await.unwrap();
        server.kill();
        let charge = limiter.try_acquire_up_to(7).await.unwrap();
        assert_eq!((charge.source(), charge.cost()), (Source::Fallback, 7));
        // A refund of the share is not charged either.
        let other = limiter.acquire_many(5).await.unwrap();
        assert_eq!(other.source(), Source::Fallback);
        limiter.refund(other).await.unwrap();
        // The data of the server are on disk.
        server.restart();
        let mut calls = 0;
        until(async || {
            calls += 1;
            limiter.acquire().await.unwrap().source() == Source::Store
        })
        .await;
        assert_eq!(charged(&limiter).await, 40 + 7 + calls);
    });
}

#[test]
fn acquire_with_prefetched_tokens_has_charged_the_share_for_them() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let limiter = fleet(&proxy, Algorithm::Gcra, 1).remove(0);
        let limiter = limiter.prefetch(10, Duration::from_secs(3_600));
        recovers(&limiter).await;
        let mut admitted = taken(&limiter, 55, Source::TokenCache).await;
        proxy.set(Mode::BlackHole);
        // What is held, and then what the share has left.
        while limiter.try_acquire().await.is_ok() {
            admitted += 1;
        }
        assert_eq!(admitted, BURST);
    });
}

/// The share of the slow limit has plenty, so a waiter is not refused because of it.
#[test]
fn acquire_of_a_set_behind_another_caller_waits_for_the_share_that_denied() {
    runtime().block_on(async {
        let store = Store::new("redis://127.0.0.1:1/").unwrap();
        let set = LimitSet::new(&store)
            .limit("seldom", Quota::per_day(1).burst(100))
            .limit("often", Quota::per_second(10))
            .fallback(Fallback::Local { share: 1 });
        set.acquire().await.unwrap();
        let hour = Duration::from_secs(3_600);
        let (one, other) = tokio::join!(set.acquire(), set.acquire().timeout(hour));
        assert_eq!((one.unwrap().cost(), other.unwrap().cost()), (1, 1));
    });
}
