//! Tests callers that wait while the server fails: they keep their places and their timeouts, and follow the
//! fallback of the limit.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::{ErrorKind, Quota};
use tollgate_redis::{Fallback, LimitSet, RateLimiter, Source, Store, StoreError};

use super::help::{DEADLINE, begin, charged, ends, failure, limiter, recovers, slow, until};
use crate::support::on_server;

#[test]
fn acquire_without_a_server_waits_until_it_is_back() {
    on_server(async |server| {
        let store = server.store();
        let limiter = limiter(&store, 10).await;
        server.kill();
        let mut waiters = JoinSet::new();
        for _ in 0..10 {
            waiters.spawn(limiter.acquire());
        }
        until(async || limiter.waiting() == 10 && store.is_broken()).await;
        // Who asks for an answer now gets one.
        let _typed = failure(&ends(limiter.try_acquire()).await.unwrap_err());
        assert_eq!(limiter.waiting(), 10);
        server.restart();
        while let Some(charge) = waiters.join_next().await {
            assert_ne!(charge.unwrap().unwrap().source(), Source::Fallback);
        }
        assert_eq!((limiter.waiting(), charged(&limiter).await), (0, 10));
    });
}

#[test]
fn acquire_through_a_restart_keeps_its_place() {
    on_server(async |server| {
        let store = server.store();
        let recheck = Duration::from_millis(10);
        let limiter = RateLimiter::new(&store, "k", slow(3)).recheck(recheck);
        until(async || limiter.try_acquire_many(3).await.is_ok()).await;
        let first = tokio::spawn(limiter.acquire_many(3));
        until(async || limiter.waiting() == 1).await;
        server.kill();
        let mut second = limiter.acquire();
        assert!(super::help::waits(&mut second).await);
        until(async || store.is_broken()).await;
        // The server has lost its data.
        server.restart();
        assert_eq!(first.await.unwrap().unwrap().cost(), 3);
        assert!(super::help::waits(&mut second).await);
        assert_eq!(limiter.waiting(), 1);
    });
}

#[test]
fn acquire_with_a_timeout_that_ends_in_an_outage_is_an_error() {
    on_server(async |server| {
        let limiter = limiter(&server.store(), 10).await;
        server.kill();
        let forever = tokio::spawn(limiter.acquire());
        for millis in [1, 10, 100, 300] {
            let time = Duration::from_millis(millis);
            let refused = ends(limiter.acquire().timeout(time)).await.unwrap_err();
            // That of the store if the next attempt comes too late.
            let kinds = [ErrorKind::TimedOut, ErrorKind::Store];
            assert!(kinds.contains(&refused.kind()), "{refused}");
        }
        until(async || limiter.waiting() == 1).await;
        server.restart();
        ends(forever).await.unwrap().unwrap();
    });
}

#[test]
fn acquire_beyond_max_waiters_in_an_outage_is_refused() {
    on_server(async |server| {
        let store = server.store();
        let limiter = limiter(&store, 10).await.max_waiters(2);
        let set = set(&store, "set", slow(10)).max_waiters(2);
        until(async || set.peek(0).await.is_ok() && limiter.try_acquire().await.is_ok()).await;
        server.kill();
        let mut waiters = JoinSet::new();
        for _ in 0..2 {
            let (limiter, set) = (limiter.clone(), set.clone());
            waiters.spawn(async move { limiter.acquire().await.map(drop) });
            waiters.spawn(async move { set.acquire().await.map(drop) });
        }
        until(async || (limiter.waiting(), set.waiting()) == (2, 2)).await;
        let refused = ends(limiter.acquire()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QueueFull);
        let refused = ends(set.acquire()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QueueFull);
        server.restart();
        while let Some(admitted) = waiters.join_next().await {
            admitted.unwrap().unwrap();
        }
    });
}

/// The fallback admits callers, whoever has turns.
#[test]
fn acquire_beside_a_turn_in_an_outage_is_admitted_by_the_fallback() {
    on_server(async |server| {
        let store = server.store().deadline(DEADLINE);
        let limiter = RateLimiter::new(&store, "rate", Quota::per_second(1).burst(60))
            .fallback(Fallback::FailOpen)
            .recheck(Duration::ZERO)
            .max_waiters(1);
        limiter.acquire_many(60).await.unwrap();
        let _waiter = tokio::spawn(limiter.acquire_many(60));
        until(async || limiter.statistics().turns == 1).await;
        let refused = ends(limiter.acquire()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QueueFull);
        server.kill();
        // Then the outage is known.
        ends(limiter.try_acquire()).await.unwrap();
        ends(limiter.acquire()).await.unwrap();
    });
}

#[test]
fn acquire_beside_a_call_that_tries_in_an_outage_is_the_first_that_waits() {
    on_server(async |server| {
        let store = server.store().deadline(DEADLINE);
        let limiter = limiter(&store, 10).await.max_waiters(1);
        server.stop();
        // Then everybody waits for the next attempt, except calls that try.
        let _typed = failure(&ends(limiter.try_acquire()).await.unwrap_err());
        let mut tries = limiter.try_acquire();
        assert!(super::help::waits(&mut tries).await);
        let mut waiter = limiter.acquire();
        assert!(super::help::waits(&mut waiter).await, "it is no queue");
        let refused = ends(limiter.acquire()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QueueFull);
        server.go_on();
        ends(waiter).await.unwrap();
    });
}

#[test]
fn acquire_beside_callers_of_a_set_that_have_turns_in_an_outage_is_refused() {
    on_server(async |server| {
        let store = server.store().deadline(DEADLINE);
        // The first turn is due in two seconds, and not too old for a minute.
        let set = LimitSet::new(&store)
            .limit("rate", Quota::per_minute(30).burst(1))
            .limit("other", slow(100))
            .horizon(Duration::from_secs(60))
            .max_waiters(2);
        until(async || set.acquire().await.is_ok()).await;
        let mut waiters = JoinSet::new();
        for _ in 0..2 {
            waiters.spawn(set.acquire());
        }
        until(async || set.statistics().turns == 2).await;
        server.stop();
        // The first one has the unit of its turn.
        until(async || store.statistics().failures(StoreError::Timeout) > 0).await;
        for _ in 0..5 {
            let refused = ends(set.acquire()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::QueueFull);
            assert!(set.waiting() <= 2);
        }
        server.go_on();
        while let Some(admitted) = waiters.join_next().await {
            admitted.unwrap().unwrap();
        }
    });
}

#[test]
fn acquire_with_fail_waiting_gets_the_error() {
    on_server(async |server| {
        let store = server.store();
        let limiter = limiter(&store, 10).await.fail_waiting();
        server.kill();
        let error = failure(&ends(limiter.acquire()).await.unwrap_err());
        assert!(!error.is_mistake(), "{error}");
        assert_eq!(limiter.waiting(), 0);
    });
}

#[test]
fn acquire_that_waits_for_the_limit_when_the_server_fails_follows_the_fallback() {
    on_server(async |server| {
        let limiter = |name: &str, fallback| {
            let limiter = RateLimiter::new(&server.store(), name, slow(4));
            let recheck = Duration::from_millis(10);
            limiter.fallback(fallback).recheck(recheck)
        };
        let all = [
            limiter("closed", Fallback::FailClosed),
            limiter("open", Fallback::FailOpen),
            limiter("local", Fallback::Local { share: 1 }),
        ];
        let mut waiters = Vec::new();
        for limiter in &all {
            recovers(limiter).await;
            // By another process: the share of this one is not used up.
            let other = RateLimiter::new(&server.store(), limiter.key(), slow(4));
            other.acquire_many(4).await.unwrap();
            waiters.push(tokio::spawn(limiter.acquire()));
            until(async || limiter.waiting() == 1).await;
        }
        server.kill();
        for waiter in waiters.drain(1..) {
            let charge = ends(waiter).await.unwrap().unwrap();
            assert_eq!(charge.source(), Source::Fallback);
        }
        assert_eq!(all[0].waiting(), 1);
        server.restart();
        let charge = waiters.remove(0).await.unwrap().unwrap();
        assert_eq!(charge.source(), Source::Store);
    });
}

/// A server that is stopped executes every call that it got when it goes on. Only the first one charges.
#[test]
fn acquire_while_the_server_is_stopped_is_charged_once_more_at_most() {
    on_server(async |server| {
        let store = server.store().deadline(DEADLINE);
        let pause = Duration::from_millis(1);
        let store = store.breaker(1, pause, pause);
        let limiter = limiter(&store, 100).await;
        let mut first = begin(server, &store, limiter.acquire()).await;
        let calls = store.calls();
        until(async || {
            assert!(super::help::waits(&mut first).await);
            store.calls() >= calls + 3
        })
        .await;
        server.go_on();
        let charge = first.await.unwrap();
        assert_eq!(charge.source(), Source::Store);
        // The call that was sent before is executed first, on its connection.
        assert_eq!(charged(&limiter).await, 2);
    });
}

/// The ticks of the server stay within the bound of each of its lives.
#[test]
fn acquire_by_a_fleet_through_restarts_is_admitted_within_the_bound() {
    on_server(async |server| {
        let quota = Quota::per_second(100);
        let mut callers = JoinSet::new();
        for _ in 0..8 {
            let limiter = RateLimiter::new(&server.store(), "k", quota);
            callers.spawn(async move {
                let mut ticks = Vec::new();
                for _ in 0..20 {
                    ticks.push(limiter.acquire().await.unwrap().at());
                }
                ticks
            });
        }
        for _ in 0..2 {
            let store = server.store();
            let look = RateLimiter::new(&store, "k", quota);
            until(async || look.peek(1).await.is_ok_and(|it| it.remaining == 0)).await;
            server.kill();
            until(async || look.peek(1).await.is_err()).await;
            server.restart();
        }
        let mut ticks = Vec::new();
        while let Some(of_one) = callers.join_next().await {
            ticks.extend(of_one.unwrap());
        }
        assert_eq!(ticks.len(), 160);
        ticks.sort_unstable();
        // After lost data, the turns that are held come on top: at most those within the horizon, or one of each
        // process.
        let (gap, most) = (Duration::from_millis(10), 1 + 2 * (1 + 25 + 8));
        let mut debt = Duration::ZERO;
        for two in ticks.windows(2) {
            let passed = two[1].duration_since(two[0]).unwrap();
            debt = debt.saturating_sub(passed) + gap;
            assert!(debt <= gap * most, "{debt:?}");
        }
    });
}

// Sets, which wait in two ways: by turns, and by looking again.

fn set(store: &Store, name: &str, quota: Quota) -> LimitSet {
    LimitSet::new(store)
        .limit(name, quota)
        .limit(format!("{name}:b"), slow(100))
}

#[test]
fn acquire_of_a_set_without_a_server_waits_until_it_is_back() {
    on_server(async |server| {
        let store = server.store();
        for (name, quota) in [
            ("slow", slow(10)),
            ("turns", Quota::per_second(100).burst(10)),
        ] {
            let set = set(&store, name, quota);
            until(async || set.try_acquire_many(10).await.is_ok()).await;
            let mut waiters = JoinSet::new();
            for _ in 0..5 {
                let set = set.clone();
                waiters.spawn(async move { set.acquire_many(2).await });
            }
            until(async || set.waiting() <= 5).await;
            server.kill();
            let failed = set.try_acquire().await;
            failed.unwrap_err();
            for _ in 0..5 {
                let set = set.clone();
                waiters.spawn(async move { set.acquire().await });
            }
            until(async || store.is_broken() && set.waiting() >= 5).await;
            server.restart();
            let mut last = 0;
            while last < 5 {
                last += u64::from(
                    waiters
                        .join_next()
                        .await
                        .unwrap()
                        .unwrap()
                        .unwrap()
                        .at(0)
                        .is_some(),
                );
            }
            waiters.shutdown().await;
        }
    });
}

#[test]
fn acquire_of_a_set_without_a_server_follows_the_fallback() {
    on_server(async |server| {
        let set = |fallback| set(&server.store(), "k", slow(10)).fallback(fallback);
        let [open, local] = [Fallback::FailOpen, Fallback::Local { share: 2 }].map(set);
        for set in [&open, &local] {
            until(async || set.peek(0).await.is_ok()).await;
        }
        let closed = set(Fallback::FailClosed).fail_waiting();
        server.kill();
        failure(&ends(closed.acquire()).await.unwrap_err());
        for _ in 0..20 {
            let charges = ends(open.acquire_many(9)).await.unwrap();
            assert_eq!((charges.cost(), charges.at(0)), (9, None));
            open.refund(charges).await.unwrap();
        }
        let first = ends(local.acquire_many(5)).await.unwrap();
        // The share of the first limit is used up, and a refund returns it.
        let (waits, again) = (local.acquire(), local.acquire());
        let mut waits = Box::pin(waits.into_future());
        assert!(super::help::waits(&mut waits).await);
        until(async || local.waiting() == 1).await;
        local.refund(first).await.unwrap();
        assert_eq!(ends(waits).await.unwrap().at(0), None);
        ends(again).await.unwrap();
        // What the shares have admitted is charged when the server is back.
        server.restart();
        until(async || {
            drop(ends(local.acquire()).await.unwrap());
            local.peek(0).await.is_ok_and(|all| all[0].remaining < 8)
        })
        .await;
        local.shutdown().await;
    });
}
