//! Futures that are dropped while the server is asked.

use std::task::Poll;

use tollgate_redis::{RateLimiter, Source};

use super::help::{PATIENT, charged, recovers, slow, until};
use crate::support::runtime;
use crate::support::server::Server;

/// Polls once, and says whether it waits.
async fn waits<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| {
        let poll = std::pin::Pin::new(&mut *future).poll(context);
        Poll::Ready(poll.is_pending())
    })
    .await
}

/// A call of this store is on its way.
async fn called(store: &tollgate_redis::Store, before: u64) {
    until("it is called", async || store.calls() > before).await;
}

#[test]
fn what_is_charged_to_a_call_that_was_dropped_is_given_back() {
    let server = Server::start();
    runtime().block_on(async {
        let store = server.store().deadline(PATIENT);
        let limiter = RateLimiter::new(&store, "k", slow(10));
        recovers(&limiter).await;
        let calls = store.calls();
        server.stop();
        let mut call = limiter.acquire_many(4);
        assert!(waits(&mut call).await);
        called(&store, calls).await;
        drop(call);
        server.go_on();
        // The call, and the one that gives back.
        until("it is given back", async || store.calls() >= calls + 2).await;
        until("all is there", async || charged(&limiter).await == 0).await;
        assert_eq!(limiter.acquire_many(10).await.unwrap().cost(), 10);
    });
}

#[test]
fn a_leader_that_is_dropped_does_not_lose_its_followers() {
    let server = Server::start();
    runtime().block_on(async {
        let store = server.store().deadline(PATIENT);
        let limiter = RateLimiter::new(&store, "k", slow(10));
        recovers(&limiter).await;
        let calls = store.calls();
        server.stop();
        let mut leader = limiter.acquire_many(5);
        assert!(waits(&mut leader).await);
        called(&store, calls).await;
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
        until("the leader's is given back", async || {
            charged(&limiter).await == 2
        })
        .await;
        assert_eq!(limiter.waiting(), 0);
    });
}

#[test]
fn a_follower_that_is_dropped_in_its_call_is_given_back_and_the_others_go() {
    let server = Server::start();
    runtime().block_on(async {
        let store = server.store().deadline(PATIENT);
        let limiter = RateLimiter::new(&store, "k", slow(10));
        recovers(&limiter).await;
        let calls = store.calls();
        server.stop();
        let mut leader = limiter.acquire();
        assert!(waits(&mut leader).await);
        called(&store, calls).await;
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
        until("the middle one's is given back", async || {
            charged(&limiter).await == 5
        })
        .await;
    });
}
