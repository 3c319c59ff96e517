//! What is taken ahead: few calls, and nothing is lost or minted.

use std::time::Duration;

use tollgate::{Algorithm, ErrorKind, Quota};
use tollgate_redis::{RateLimiter, Source};

use super::verbs::slow;
use crate::support::server::Server;
use crate::support::{runtime, until};

const HOLD: Duration = Duration::from_secs(60);

#[test]
fn decisions_take_a_call_for_each_chunk() {
    let server = Server::start();
    runtime().block_on(async {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(100_000)).prefetch(100, HOLD);
        limiter.acquire().await.unwrap();
        let mut ahead = 0;
        for _ in 0..10_000 {
            let charge = limiter.acquire().await.unwrap();
            ahead += u32::from(charge.source() == Source::TokenCache);
        }
        // The first chunk, one for each, and a miss now and then while one is on its way.
        assert!(ahead > 9_500, "{ahead}");
        assert!(store.calls() < 210, "{}", store.calls());
    });
}

#[test]
fn no_more_than_the_burst_is_admitted_by_several() {
    let server = Server::start();
    runtime().block_on(async {
        let limiters: Vec<_> = (0..3)
            .map(|_| RateLimiter::new(&server.store(), "k", slow(1000)).prefetch(64, HOLD))
            .collect();
        let tasks: Vec<_> = (0..30)
            .map(|index| {
                let limiter = limiters[index % 3].clone();
                tokio::spawn(async move {
                    let mut admitted = 0;
                    while limiter.try_acquire().await.is_ok() {
                        admitted += 1;
                    }
                    admitted
                })
            })
            .collect();
        let mut admitted = 0;
        for task in tasks {
            admitted += task.await.unwrap();
        }
        assert!(admitted <= 1000, "{admitted}");
        // What was not used is back once nobody holds it.
        drop(limiters);
        let look = RateLimiter::new(&server.store(), "k", slow(1000));
        until(async || look.peek(0).await.unwrap().remaining == 1000 - admitted).await;
    });
}

#[test]
fn what_those_in_line_leave_behind_goes_back() {
    let server = Server::start();
    runtime().block_on(async {
        // No call is given up while the server holds still.
        let patient = || server.store().deadline(HOLD);
        let limiter = RateLimiter::new(&patient(), "k", slow(10_000)).prefetch(10, HOLD);
        let look = RateLimiter::new(&patient(), "k", slow(10_000));
        limiter.acquire().await.unwrap();
        until(async || look.peek(0).await.unwrap().remaining == 9_989).await;
        server.stop();
        let mut line: Vec<_> = (0..1000).map(|_| limiter.acquire_many(5)).collect();
        for waiter in &mut line {
            let waiter = std::pin::Pin::new(waiter);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _ = Future::poll(waiter, &mut context);
        }
        drop(line);
        server.go_on();
        // Whatever was asked for them: what was used is charged, and at most a chunk is held.
        until(async || look.peek(0).await.is_ok_and(|it| it.remaining >= 9_979)).await;
    });
}

#[test]
fn what_is_held_for_too_long_goes_back() {
    let server = Server::start();
    runtime().block_on(async {
        let (store, hold) = (server.store(), Duration::from_millis(30));
        let limiter = RateLimiter::new(&store, "k", slow(100)).prefetch(10, hold);
        let look = RateLimiter::new(&server.store(), "k", slow(100));
        for used in 1..=3 {
            limiter.acquire().await.unwrap();
            // One for whoever asks first, one that takes ahead, and one that gives back.
            until(async || store.calls() >= 3 * used).await;
            until(async || look.peek(0).await.unwrap().remaining == 100 - used).await;
        }
    });
}

#[test]
fn a_refund_goes_back_to_the_hand() {
    let server = Server::start();
    runtime().block_on(async {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(100)).prefetch(10, HOLD);
        let look = RateLimiter::new(&server.store(), "k", slow(100));
        limiter.acquire().await.unwrap();
        until(async || look.peek(0).await.unwrap().remaining == 89).await;
        let calls = store.calls();
        for _ in 0..1000 {
            let charge = limiter.acquire().await.unwrap();
            assert_eq!(charge.source(), Source::TokenCache);
            limiter.refund(charge).await.unwrap();
        }
        assert_eq!(store.calls(), calls);
        limiter.close();
        until(async || look.peek(0).await.unwrap().remaining == 99).await;
        limiter.acquire().await.unwrap_err();
    });
}

#[test]
fn a_refund_goes_to_the_batch_that_it_is_of() {
    let server = Server::start();
    runtime().block_on(async {
        // It gives back exactly, in whatever order.
        let log = || {
            let limiter = RateLimiter::new(&server.store(), "k", slow(1000));
            limiter.algorithm(Algorithm::SlidingLog)
        };
        let (limiter, look) = (log().prefetch(10, HOLD), log());
        limiter.acquire().await.unwrap();
        let mut charges = Vec::new();
        for used in 2..=50 {
            // One is on its way now and then, and is waited for.
            until(async || 1000 - look.peek(0).await.unwrap().remaining >= used).await;
            charges.push(limiter.acquire().await.unwrap());
        }
        assert!(charges.iter().all(|it| it.source() == Source::TokenCache));
        let held = |remaining: u64| 1000 - remaining - 50;
        until(async || held(look.peek(0).await.unwrap().remaining) >= 3).await;
        let before = look.peek(0).await.unwrap().remaining;
        // The oldest go back to the server, as what they are of is used up.
        for charge in charges.drain(..20) {
            limiter.refund(charge).await.unwrap();
        }
        assert_eq!(look.peek(0).await.unwrap().remaining, before + 20);
        for charge in charges {
            limiter.refund(charge).await.unwrap();
        }
        limiter.shutdown().await;
        assert_eq!(look.peek(0).await.unwrap().remaining, 999);
    });
}

#[test]
fn a_shutdown_waits_until_all_of_it_is_back() {
    let server = Server::start();
    runtime().block_on(async {
        let look = RateLimiter::new(&server.store(), "k", slow(1000));
        for round in 1..=20 {
            let limiter = RateLimiter::new(&server.store(), "k", slow(1000)).prefetch(100, HOLD);
            limiter.acquire().await.unwrap();
            limiter.shutdown().await;
            assert_eq!(look.peek(0).await.unwrap().remaining, 1000 - round);
            let refused = limiter.acquire().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Closed);
        }
    });
}

#[test]
fn where_there_is_little_the_server_decides_for_each() {
    let server = Server::start();
    runtime().block_on(async {
        let limiter = RateLimiter::new(&server.store(), "k", slow(20)).prefetch(15, HOLD);
        let other = RateLimiter::new(&server.store(), "k", slow(20));
        other.acquire_many(10).await.unwrap();
        for _ in 0..10 {
            let charge = limiter.try_acquire().await.unwrap();
            assert_eq!(charge.source(), Source::Store);
        }
        limiter.try_acquire().await.unwrap_err();
    });
}

#[test]
#[should_panic(expected = "a chunk of 11 is not between 1 and the burst of 10")]
fn a_chunk_is_at_most_the_burst() {
    let server = Server::start();
    runtime().block_on(async {
        let quota = Quota::per_second(10).burst(10);
        let _ = RateLimiter::new(&server.store(), "k", quota).prefetch(11, HOLD);
    });
}
