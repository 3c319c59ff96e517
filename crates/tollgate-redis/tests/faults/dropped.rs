//! Futures that are dropped while the server is asked.

use tollgate_redis::{Detector, LimitSet, RateLimiter, Source};

use super::help::{DEADLINE, PATIENT, begin, charged, limiter, slow, until, waits};
use crate::support::proxy::{Mode, Proxy};
use crate::support::{ask, on_server};

#[test]
fn acquire_dropped_in_flight_gives_back_its_charge() {
    on_server(async |server| {
        let store = server.store();
        let limiter = limiter(&store, 10).await;
        let calls = store.calls();
        drop(begin(server, &store, limiter.acquire_many(4)).await);
        server.go_on();
        // The call, and the one that gives back.
        until(async || store.calls() >= calls + 2).await;
        until(async || charged(&limiter).await == 0).await;
        assert_eq!(limiter.acquire_many(10).await.unwrap().cost(), 10);
    });
}

#[test]
fn acquire_dropped_by_the_first_of_a_request_serves_the_others() {
    on_server(async |server| {
        let store = server.store();
        let limiter = limiter(&store, 10).await;
        let leader = begin(server, &store, limiter.acquire_many(5)).await;
        let mut followers: Vec<_> = (0..3).map(|_| limiter.acquire()).collect();
        for follower in &mut followers {
            assert!(waits(follower).await);
        }
        drop(leader);
        drop(followers.remove(1));
        server.go_on();
        for follower in followers {
            assert_eq!(follower.await.unwrap().source(), Source::Coalesced);
        }
        until(async || charged(&limiter).await == 2).await;
        assert_eq!(limiter.waiting(), 0);
    });
}

#[test]
fn acquire_dropped_by_another_of_a_request_gives_back_and_serves_the_others() {
    on_server(async |server| {
        let store = server.store();
        let limiter = limiter(&store, 10).await;
        let leader = begin(server, &store, limiter.acquire()).await;
        let mut followers: Vec<_> = (1..=3).map(|cost| limiter.acquire_many(cost)).collect();
        for follower in &mut followers {
            assert!(waits(follower).await);
        }
        server.go_on();
        leader.await.unwrap();
        server.stop();
        // Whether their call is on its way already or answered: the middle one is not there.
        drop(followers.remove(1));
        server.go_on();
        let mut costs = 0;
        for follower in followers {
            costs += follower.await.unwrap().cost();
        }
        assert_eq!(costs, 4);
        until(async || charged(&limiter).await == 5).await;
    });
}

#[test]
fn acquire_dropped_before_the_deadline_counts_for_the_breaker() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let store = proxy.store().deadline(DEADLINE);
        let limits = LimitSet::new(&store).limit("k", slow(10));
        until(async || limits.peek(1).await.is_ok()).await;
        let accepted = proxy.accepted();
        proxy.set(Mode::HalfOpen);
        until(async || {
            let _ = tokio::time::timeout(DEADLINE / 50, limits.peek(1)).await;
            store.is_broken()
        })
        .await;
        // From now on all passes but on that connection. Nobody waits for as long as a trip takes,
        // not even who is let through to see whether the store is back.
        proxy.set(Mode::Pass);
        until(async || {
            let mut call = std::pin::pin!(limits.peek(1));
            let _ = waits(&mut call).await;
            !store.is_broken()
        })
        .await;
        assert!(proxy.accepted() > accepted);
    });
}

#[test]
fn charge_dropped_before_it_is_sent_is_not_sent() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let store = proxy.store().deadline(PATIENT);
        let [mallory, alice] =
            ["mallory", "alice"].map(|key| RateLimiter::new(&store, key, slow(10)));
        // It waits for the connection, which is made when it is gone.
        proxy.set(Mode::BlackHole);
        {
            let mut call = std::pin::pin!(mallory.charge(11));
            assert!(waits(&mut call).await);
        }
        proxy.set(Mode::Pass);
        alice.charge(1).await.unwrap();
        assert_eq!(ask::<Vec<String>>(server, &["KEYS", "*"]), ["alice"]);
    });
}

#[test]
fn pass_dropped_before_it_is_sent_is_not_sent() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let store = proxy.store().deadline(PATIENT);
        let detector = Detector::new(&store, "abuse", slow(10));
        detector.record_many("mallory", 11);
        proxy.set(Mode::BlackHole);
        {
            let mut pass = std::pin::pin!(detector.pass());
            assert!(waits(&mut pass).await);
        }
        proxy.set(Mode::Pass);
        detector.record("alice");
        assert_eq!(detector.pass().await, Ok(0));
        assert_eq!(
            ask::<Vec<String>>(server, &["KEYS", "*"]),
            ["{abuse}/detector/alice"]
        );
    });
}

#[test]
fn limit_set_acquire_dropped_in_flight_gives_back_its_charges() {
    on_server(async |server| {
        let store = server.store();
        let limits = LimitSet::new(&store)
            .limit("a", slow(10))
            .limit("b", slow(10));
        let free = async || limits.peek(1).await.unwrap()[1].remaining;
        assert_eq!(free().await, 10);
        for tries in [true, false] {
            let calls = store.calls();
            if tries {
                drop(begin(server, &store, limits.try_acquire_many(4)).await);
            } else {
                drop(begin(server, &store, limits.acquire_many(4)).await);
            }
            server.go_on();
            until(async || store.calls() >= calls + 2).await;
            until(async || free().await == 10).await;
        }
        // Who gives back, and leaves, has given back.
        let charges = limits.acquire_many(4).await.unwrap();
        drop(begin(server, &store, limits.refund(charges)).await);
        server.go_on();
        until(async || free().await == 10).await;
    });
}
