//! A server that is killed and comes back empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::ErrorKind;
use tollgate_redis::{Fallback, RateLimiter, Source, StoreError};

use super::help::{Tally, charged, crowd, ends, limiter, recovers, slow, until};
use crate::support::on_server;

#[test]
fn acquire_through_a_restart_admits_one_more_burst_at_most() {
    on_server(async |server| {
        let store = server.store();
        // A new one knows of no denial, as if each caller were another process.
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
        // A burst of each life of the server, but for what was charged and never heard of.
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
            ends(limiter.acquire()).await.unwrap_err();
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
        // By its share this one would wait for the better part of an hour.
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
        let pause = Duration::from_millis(1);
        let store = server.store().breaker(2, pause, pause);
        let limiter = RateLimiter::new(&store, "k", slow(10));
        let says = || format!("{store:?}").contains("is_broken: true");
        recovers(&limiter).await;
        assert!(!store.is_broken() && !says());
        server.kill();
        until(async || limiter.peek(0).await == Err(StoreError::BreakerOpen)).await;
        assert!(store.is_broken() && says());
        // The pause is over, and calls are let through, one by one.
        for _ in 0..2 {
            until(async || limiter.peek(0).await == Err(StoreError::Unavailable)).await;
            assert!(store.is_broken() && says());
        }
        server.restart();
        recovers(&limiter).await;
        assert!(!store.is_broken() && !says());
    });
}
