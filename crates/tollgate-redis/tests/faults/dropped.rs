//! Tests futures that are dropped during a call of the server.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::{Algorithm, Quota};
use tollgate_redis::{Detector, LimitSet, RateLimiter, Source};

use super::help::{DEADLINE, PATIENT, begin, charged, ends, limiter, slow, until, waits};
use crate::support::proxy::{Mode, Proxy};
use crate::support::{algorithms, ask, on_server};

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
        // Drops the middle caller, whether its call is in flight or answered.
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
        // From now on all data passes, except on that connection. No caller waits for as long as a round trip
        // takes, not even the probe.
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
        // The caller waits for the connection, which is ready only after the caller has left.
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
        // A refund whose future is dropped is still made.
        let charges = limits.acquire_many(4).await.unwrap();
        drop(begin(server, &store, limits.refund(charges)).await);
        server.go_on();
        until(async || free().await == 10).await;
    });
}

/// A quota of at least 2,000 whose debt is not paid off while a test runs.
fn frozen(algorithm: Algorithm) -> Quota {
    let (count, days) = match algorithm {
        Algorithm::SlidingWindow => (2_000, 20),
        _ => (20_000, 365),
    };
    Quota::new(count, Duration::from_secs(days * 86_400)).burst(count)
}

/// The moment at which a group of callers leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    /// Before the call is sent, while it waits behind another one.
    Queued,
    /// While the call is in flight.
    InFlight,
    /// When the reply has arrived, and the caller has not polled since.
    Answered,
}

/// Callers leave in the order of their arrival, at each point of a call. Their charges are refunded in that
/// order, for any number of waiting refunds.
#[test]
fn acquire_dropped_at_every_point_leaves_the_charges_of_the_others_alone() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let delay = Mode::Delay(Duration::from_millis(5));
        let mut rng = fastrand::Rng::with_seed(17);
        for algorithm in algorithms() {
            let store = proxy.store().deadline(PATIENT);
            let key = algorithm.to_string();
            let limiter = RateLimiter::new(&store, &key, frozen(algorithm)).algorithm(algorithm);
            let (mut kept, mut left) = (0, 0);
            for wave in 0..30 {
                let leave = [Leave::Queued, Leave::InFlight, Leave::Answered][wave % 3];
                // The call of the first caller is in flight, and the others wait for the next one.
                proxy.set(Mode::BlackHole);
                let mut leader = std::pin::pin!(limiter.acquire());
                assert!(waits(&mut leader).await);
                let mut callers: Vec<_> = (0..24)
                    .map(|_| limiter.acquire_many(rng.u64(1..4)))
                    .collect();
                for caller in &mut callers {
                    assert!(waits(caller).await);
                }
                if leave == Leave::Queued {
                    // No call of the first half is sent.
                    left += callers.drain(..12).count();
                }
                proxy.set(delay);
                kept += leader.await.unwrap().cost();
                if leave == Leave::Answered {
                    until(async || limiter.waiting() == 0).await;
                }
                for caller in callers {
                    // One caller in ten stays.
                    if rng.u32(0..10) == 0 {
                        kept += caller.await.unwrap().cost();
                    } else {
                        drop(caller);
                        left += 1;
                    }
                }
            }
            limiter.shutdown().await;
            assert_eq!(limiter.unrefunded(), 0);
            let direct = RateLimiter::new(&server.store(), &key, frozen(algorithm));
            assert_eq!(
                charged(&direct.algorithm(algorithm)).await,
                kept,
                "{algorithm}"
            );
            assert!(left > 500);
        }
    });
}

/// Makes 4,000 calls in tasks that leave at any time, and returns the sum of the costs that were kept.
async fn leave_at_any_time<C>(acquire: impl Fn(u64) -> C) -> u64
where
    C: Future<Output = u64> + Send + 'static,
{
    let mut rng = fastrand::Rng::with_seed(4_000);
    let mut kept = 0;
    for _ in 0..20 {
        let mut tasks = JoinSet::new();
        for _ in 0..200 {
            let call = acquire(rng.u64(1..4));
            let [begin, end] = [0, 0].map(|_| Duration::from_micros(rng.u64(0..12_000)));
            tasks.spawn(async move {
                tokio::time::sleep(begin).await;
                tokio::time::timeout(end, call).await.ok()
            });
        }
        while let Some(cost) = tasks.join_next().await {
            kept += cost.unwrap().unwrap_or(0);
        }
    }
    kept
}

/// The same holds for tasks that leave at any time, where a refund may come after that of a later charge. The
/// refund is exact as long as more is owed for earlier charges.
#[test]
fn acquire_dropped_by_thousands_of_tasks_leaves_the_charges_of_the_others_alone() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        proxy.set(Mode::Delay(Duration::from_millis(5)));
        let quota = Quota::new(40_000, Duration::from_secs(365 * 86_400)).burst(40_000);
        let limiter = RateLimiter::new(&proxy.store().deadline(PATIENT), "k", quota);
        let mut kept = limiter.acquire_many(12_000).await.unwrap().cost();
        kept += leave_at_any_time(|n| {
            let call = limiter.acquire_many(n);
            async move { call.await.unwrap().cost() }
        })
        .await;
        limiter.shutdown().await;
        assert_eq!(limiter.unrefunded(), 0);
        let direct = RateLimiter::new(&server.store(), "k", quota);
        assert_eq!(charged(&direct).await, kept);
    });
}

/// Failed refunds are counted, and a shutdown does not wait for long.
#[test]
fn unrefunded_without_a_server_counts_the_charges() {
    on_server(async |server| {
        let store = server.store();
        let limiter = limiter(&store, 100).await;
        let charges: Vec<_> = [
            limiter.acquire_many(4).await.unwrap(),
            limiter.acquire_many(3).await.unwrap(),
        ]
        .into();
        server.kill();
        for charge in charges {
            limiter.refund_later(charge);
        }
        ends(limiter.shutdown()).await;
        assert_eq!(limiter.unrefunded(), 7);
    });
}

/// Does the same with a set, without an order: each reply is noticed by its own task. While time pays nothing
/// off, the order does not matter.
#[test]
fn limit_set_acquire_dropped_by_thousands_of_tasks_leaves_the_charges_of_the_others_alone() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        proxy.set(Mode::Delay(Duration::from_millis(5)));
        let quota = Quota::new(20_000, Duration::from_secs(365 * 86_400));
        let limits = LimitSet::new(&proxy.store().deadline(PATIENT))
            .limit_by(Algorithm::FixedWindow, "a", quota)
            .limit_by(Algorithm::SlidingLog, "b", quota);
        let kept = leave_at_any_time(|n| {
            let limits = limits.clone();
            async move { limits.acquire_many(n).await.unwrap().cost() }
        })
        .await;
        until(async || {
            let all = limits.peek(0).await.unwrap();
            all.iter().all(|one| one.limit - one.remaining == kept)
        })
        .await;
        assert_eq!(limits.unrefunded(), 0);
    });
}

/// A shutdown waits for the calls of callers that have left.
#[test]
fn limit_set_shutdown_waits_for_calls_and_refunds_whose_callers_have_left() {
    on_server(async |server| {
        let store = server.store().deadline(PATIENT);
        let set = LimitSet::new(&store)
            .limit("a", slow(10))
            .limit("b", slow(10));
        let remaining = async || {
            let all = set.peek(0).await.unwrap();
            [all[0].remaining, all[1].remaining]
        };
        let outcome = set.try_acquire_many(3).await.unwrap();
        drop(begin(server, &store, set.try_acquire()).await);
        let mut shutdown = Box::pin(set.shutdown());
        assert!(waits(&mut shutdown).await);
        server.go_on();
        shutdown.await;
        assert_eq!(remaining().await, [7, 7]);
        let charges = outcome.into_charges().unwrap();
        drop(begin(server, &store, set.refund(charges)).await);
        let mut shutdown = Box::pin(set.shutdown());
        assert!(waits(&mut shutdown).await);
        server.go_on();
        shutdown.await;
        assert_eq!(remaining().await, [10, 10]);
    });
}

#[test]
fn refund_dropped_during_the_call_is_made_before_a_shutdown_ends() {
    on_server(async |server| {
        let store = server.store().deadline(PATIENT);
        let limiter = limiter(&store, 10).await;
        let charge = limiter.try_acquire_many(3).await.unwrap();
        let settled = limiter.try_acquire_many(4).await.unwrap();
        drop(begin(server, &store, limiter.settle(settled, 1)).await);
        drop(begin(server, &store, limiter.refund(charge)).await);
        let mut shutdown = Box::pin(limiter.shutdown());
        assert!(waits(&mut shutdown).await);
        server.go_on();
        shutdown.await;
        assert_eq!(charged(&limiter).await, 1);
    });
}
