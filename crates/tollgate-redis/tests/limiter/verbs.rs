//! Tests of each method.

use std::time::Duration;

use tollgate::throttle::{Inspect, LimitStatus, Weighted};
use tollgate::{Algorithm, ErrorKind, Quota, Throttle};
use tollgate_redis::{Detector, LimitSet, RateLimiter, Source, Store, StoreError};

use crate::support::server::Server;
use crate::support::{PATIENT, on_server, one_thread, runtime, slow, until};

#[test]
fn acquire_beyond_the_burst_is_denied() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", slow(5));
        for left in (0..5).rev() {
            let charge = limiter.acquire().await.unwrap();
            assert_eq!((charge.cost(), charge.source()), (1, Source::Store));
            assert_eq!(charge.decision().limit, 5);
            assert_eq!(charge.decision().remaining, left);
        }
        let refused = limiter.try_acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
        let after = refused.retry_after().unwrap();
        let step = Duration::from_secs(86_400) / 5;
        assert!(after <= step && after > step / 2, "{after:?}");
        let refused = limiter.try_acquire_many(6).await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.capacity()),
            (ErrorKind::ExceedsCapacity, Some(5))
        );
    });
}

#[test]
fn try_acquire_of_a_known_denial_makes_no_call() {
    on_server(async |server| {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(5));
        limiter.acquire_many(3).await.unwrap();
        limiter.try_acquire_many(3).await.unwrap_err();
        let calls = store.calls();
        for _ in 0..100 {
            limiter.try_acquire_many(3).await.unwrap_err();
            limiter.try_acquire_many(5).await.unwrap_err();
        }
        assert_eq!(store.calls(), calls);
        // A smaller cost has no cached denial.
        limiter.try_acquire_many(2).await.unwrap();
        assert_eq!(store.calls(), calls + 1);
    });
}

#[test]
fn refund_and_settle_give_back_once() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", slow(5));
        let first = limiter.acquire_many(2).await.unwrap();
        let second = limiter.acquire_many(3).await.unwrap();
        assert_eq!(limiter.peek(0).await.unwrap().remaining, 0);
        limiter.refund(first).await.unwrap();
        assert_eq!(limiter.peek(0).await.unwrap().remaining, 2);
        limiter.settle(second, 1).await.unwrap();
        assert_eq!(limiter.peek(0).await.unwrap().remaining, 4);
        let third = limiter.acquire().await.unwrap();
        limiter.settle(third, 3).await.unwrap();
        assert_eq!(limiter.peek(0).await.unwrap().remaining, 1);
    });
}

/// Takes six units, and settles in the background.
async fn takes_six_and_uses<T: Weighted + Inspect>(throttle: &T, used: u64) -> u64 {
    let charge = throttle.cost(6).enter().await.unwrap();
    let mut left = u64::MAX;
    throttle.inspect(Some(&charge), &mut |_, status| match status {
        LimitStatus::Rate { decision, .. } => left = decision.remaining,
        status => panic!("{status:?}"),
    });
    throttle.settle(charge, used);
    left
}

#[test]
fn settle_of_an_adapter_is_made_in_the_background() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", slow(20));
        assert_eq!(limiter.max_units(), 20);
        assert_eq!(limiter.chunk_units(), 10);
        for (used, seen, left) in [(2, 14, 18), (8, 12, 10), (6, 4, 4)] {
            assert_eq!(takes_six_and_uses(&limiter, used).await, seen);
            until(async || limiter.peek(0).await.unwrap().remaining == left).await;
        }
        limiter.inspect(None, &mut |_, status| {
            assert_eq!(status, LimitStatus::Unknown);
        });
    });
}

#[test]
fn acquire_by_many_shares_calls() {
    on_server(async |server| {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(1000));
        let tasks: Vec<_> = (0..1000)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.acquire().await.unwrap() })
            })
            .collect();
        let mut coalesced = 0;
        for task in tasks {
            coalesced += u32::from(task.await.unwrap().source() == Source::Coalesced);
        }
        assert!(coalesced > 0);
        assert!(store.calls() < 1000, "{}", store.calls());
        assert_eq!(limiter.peek(1).await.unwrap().remaining, 0);
    });
}

#[test]
fn acquire_that_waits_is_admitted_when_due() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", Quota::per_second(100));
        let mut last = None;
        for _ in 0..10 {
            let at = limiter.acquire().await.unwrap().at();
            if let Some(last) = last {
                assert!(at.duration_since(last).unwrap() >= Duration::from_millis(10));
            }
            last = Some(at);
        }
        let limiter = RateLimiter::new(&server.store(), "slow", slow(1));
        limiter.acquire().await.unwrap();
        let refused = limiter.acquire().timeout(Duration::from_nanos(1)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn reserve_with_a_delay_is_paid_later_or_given_back() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", Quota::per_hour(1));
        let hour = Duration::from_secs(3_600);
        let first = limiter.reserve(Duration::ZERO).await.unwrap();
        assert_eq!(first.delay(), Duration::ZERO);
        let refused = limiter.reserve(hour / 2).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
        let second = limiter.reserve(hour).await.unwrap();
        assert!(second.delay() > hour / 2);
        drop(second);
        limiter.refund(first.ready().await.unwrap()).await.unwrap();
        until(async || limiter.peek(1).await.unwrap().remaining == 1).await;
    });
}

/// The key is not converted back to the old period, which would lose all charges since.
#[test]
fn refund_of_a_charge_from_before_set_quota_leaves_newer_charges_refundable() {
    on_server(async |server| {
        let days = |n: u64| Quota::new(10, Duration::from_secs(n * 86_400)).burst(10);
        let limiter = RateLimiter::new(&server.store(), "k", days(100));
        let free = async || limiter.peek(0).await.unwrap().remaining;
        let old = limiter.acquire_many(4).await.unwrap();
        limiter.set_quota(days(200));
        let new = limiter.acquire_many(3).await.unwrap();
        limiter.refund(old).await.unwrap();
        // The old charge was converted, so it stays.
        assert_eq!(free().await, 3);
        limiter.refund(new).await.unwrap();
        assert_eq!(free().await, 6);
        assert_eq!(limiter.unrefunded(), 0);
    });
}

#[test]
fn refund_of_a_charge_of_another_algorithm_refunds_nothing() {
    on_server(async |server| {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(100));
        let log = RateLimiter::new(&store, "l", slow(100)).algorithm(Algorithm::SlidingLog);
        let foreign = log.acquire().await.unwrap();
        let kept = limiter.acquire_many(30).await.unwrap();
        let own = limiter.acquire_many(40).await.unwrap();
        limiter.refund_later(foreign);
        limiter.refund_later(own);
        limiter.shutdown().await;
        assert_eq!(limiter.unrefunded(), 0);
        let decision = limiter.peek(0).await.unwrap();
        assert_eq!(decision.remaining, 100 - kept.cost());
    });
}

// Several limits in one call.

#[test]
fn try_acquire_of_a_set_charges_all_or_none() {
    on_server(async |server| {
        let store = server.store();
        let limits = LimitSet::new(&store)
            .limit("user", slow(5))
            .limit_by(Algorithm::SlidingLog, "team", slow(3))
            .limit_by(Algorithm::SlidingWindow, "all", slow(8));
        let free = async || {
            let decisions = limits.peek(1).await.unwrap();
            decisions.iter().map(|it| it.remaining).collect::<Vec<_>>()
        };
        let first = limits.try_acquire_many(2).await.unwrap();
        assert!(first.is_admitted());
        assert_eq!(free().await, [3, 1, 6]);

        let refused = limits.try_acquire_many(2).await.unwrap();
        assert_eq!(refused.violated().collect::<Vec<_>>(), [1]);
        assert!(refused.retry_after() > Some(Duration::from_secs(3_600)));
        assert!(refused.into_charges().is_none());
        assert_eq!(free().await, [3, 1, 6]);

        // The same keys as single limits.
        let user = RateLimiter::new(&store, "user", slow(5));
        user.acquire_many(3).await.unwrap();
        let refused = limits.try_acquire_many(2).await.unwrap();
        assert_eq!(refused.violated().collect::<Vec<_>>(), [0, 1]);

        limits.refund(first.into_charges().unwrap()).await.unwrap();
        assert_eq!(free().await, [2, 3, 8]);
        let refused = limits.acquire_many(4).await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.capacity()),
            (ErrorKind::ExceedsCapacity, Some(3))
        );
        for n in [4, u64::MAX] {
            let never = limits.try_acquire_many(n).await.unwrap();
            assert_eq!(never.retry_after(), None);
            assert!(never.violated().any(|index| index == 1));
            assert_eq!(limits.peek(n).await.unwrap().len(), 3);
        }
        assert_eq!(free().await, [2, 3, 8]);
    });
}

#[test]
fn enter_with_a_short_timeout_is_refused_at_once() {
    on_server(async |server| {
        let limits = LimitSet::new(&server.store())
            .limit("a", slow(1))
            .limit("b", slow(1));
        let charges = limits.enter().await.unwrap();
        let second = Duration::from_secs(1);
        let refused = limits.enter().timeout(second).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
        assert!(refused.retry_after().unwrap() > second);
        limits.refund(charges).await.unwrap();
        limits.enter().timeout(second).await.unwrap();
    });
}

#[test]
fn refund_to_a_set_of_more_limits_is_an_error() {
    on_server(async |server| {
        let one = LimitSet::new(&server.store()).limit("a", slow(5));
        let two = one.clone().limit("b", slow(5));
        let charges = one.acquire().await.unwrap();
        assert_eq!(two.refund(charges).await, Err(StoreError::Script));
        assert!(two.try_acquire().await.unwrap().is_admitted());
    });
}

/// A refund of another set's charges does not affect the refunds of the set's own charges.
#[test]
fn rollback_of_charges_of_a_set_of_fewer_limits_is_counted_alone() {
    on_server(async |server| {
        let one = LimitSet::new(&server.store()).limit("a", slow(50));
        let two = one.clone().limit("b", slow(50));
        let foreign = one.acquire_many(3).await.unwrap();
        let own = two.acquire_many(40).await.unwrap();
        two.rollback(foreign);
        two.rollback(own);
        until(async || two.peek(0).await.unwrap()[1].remaining == 50).await;
        assert_eq!(two.peek(0).await.unwrap()[0].remaining, 47);
        assert_eq!(two.unrefunded(), 3);
    });
}

/// Refunds of a set take time in proportion to its limits, so its calls have fewer of them.
#[test]
fn rollback_of_many_in_a_set_of_many_limits_makes_more_calls() {
    let server = Server::start();
    one_thread().block_on(async {
        let store = server.store().deadline(PATIENT);
        let quota = slow(100_000);
        let limits = (0..10).fold(LimitSet::new(&store), |limits, index| {
            limits.limit(format!("{index}"), quota)
        });
        let mut all = Vec::new();
        for _ in 0..300 {
            all.push(limits.acquire().await.unwrap());
        }
        let calls = store.calls();
        // The sending task begins when this one yields.
        for charges in all {
            limits.rollback(charges);
        }
        until(async || store.calls() == calls + 3).await;
        until(async || limits.peek(0).await.unwrap()[9].remaining == 100_000).await;
        assert_eq!(limits.unrefunded(), 0);
    });
}

#[test]
fn acquire_with_jitter_asks_again_later() {
    on_server(async |server| {
        let limits = |store: &Store| {
            let quick = Quota::new(1, Duration::from_millis(5));
            LimitSet::new(store).limit_by(Algorithm::FixedWindow, "k", quick)
        };
        let stores = [(); 2].map(|()| server.store());
        let soon = limits(&stores[0]);
        // This set retries after a random time within a year.
        let late = limits(&stores[1]).jitter(Duration::from_secs(365 * 24 * 3_600));
        for _ in 0..50 {
            soon.acquire().await.unwrap();
            let calls = stores[1].calls();
            let others = async {
                for _ in 0..20 {
                    soon.acquire().await.unwrap();
                }
            };
            tokio::select! {
                // On a slow machine there may be enough tokens for this call by then.
                charges = late.acquire() => drop(charges.unwrap()),
                () = others => {
                    assert_eq!(stores[1].calls(), calls + 1);
                    return;
                }
            }
        }
        panic!("it asked again at once");
    });
}

// Detectors on several stores, which stand for several processes.

#[test]
fn pass_over_the_threshold_of_all_processes_blocks() {
    on_server(async |server| {
        let detector = || {
            Detector::new(&server.store().deadline(PATIENT), "abuse", slow(100))
                .penalty(Duration::from_secs(60))
        };
        let (one, other) = (detector(), detector());
        for _ in 0..60 {
            one.record("mallory");
            other.record("mallory");
            one.record("alice");
        }
        one.check("mallory").unwrap();
        assert_eq!(one.pass().await, Ok(0));
        assert_eq!(other.pass().await, Ok(1));
        assert_eq!(other.flagged(), ["mallory"]);
        let refused = other.check("mallory").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
        assert!(refused.retry_after().unwrap() > Duration::from_secs(59));
        other.check("alice").unwrap();

        // The first process learns about it with its next call.
        one.check("mallory").unwrap();
        one.record("mallory");
        assert_eq!(one.pass().await, Ok(1));
        one.check("mallory").unwrap_err();

        // Records that cannot be sent are kept.
        server.kill();
        one.record_many("bob", 200);
        while one.pass().await != Err(StoreError::Unavailable) {
            one.record_many("bob", 200);
        }
        one.check("bob").unwrap();
        server.restart();
        while one.pass().await.is_err() {}
        one.check("bob").unwrap_err();
    });
}

#[test]
fn pass_of_many_callers_makes_a_call_for_each_32() {
    on_server(async |server| {
        let store = server.store().deadline(PATIENT);
        let detector = Detector::new(&store, "abuse", slow(10));
        for caller in 0..1000 {
            detector.record_many(&caller.to_string(), 5 + 10 * u64::from(caller % 100 == 0));
        }
        assert_eq!(detector.pass().await, Ok(10));
        assert_eq!(detector.flagged().len(), 10);
        assert_eq!(store.calls(), 32);
    });
}

#[test]
fn record_beyond_the_bound_is_counted_as_unrecorded() {
    on_server(async |server| {
        let detector =
            Detector::new(&server.store().deadline(PATIENT), "abuse", slow(10)).callers(3);
        for caller in ["a", "b", "c", "d", "e"] {
            detector.record_many(caller, 11);
            // Callers that are kept are still recorded.
            detector.record("a");
        }
        assert_eq!(detector.unrecorded(), 22);
        assert_eq!(detector.pass().await, Ok(3));
        // After that there is room.
        detector.record_many("d", 11);
        assert_eq!(detector.unrecorded(), 22);

        // Records that a failed pass has kept count.
        server.kill();
        while detector.pass().await != Err(StoreError::Unavailable) {
            detector.record_many("d", 11);
        }
        detector.record("e");
        detector.record("f");
        detector.record("g");
        assert_eq!(detector.unrecorded(), 23);
        detector.record_many("h", u64::MAX);
        assert_eq!(detector.unrecorded(), u64::MAX);
        server.restart();
        while detector.pass().await.is_err() {}
        detector.check("d").unwrap_err();
        detector.check("e").unwrap();
    });
}

#[test]
fn record_many_of_the_largest_number_saturates() {
    on_server(async |server| {
        let detector = Detector::new(&server.store().deadline(PATIENT), "abuse", slow(10));
        detector.record_many("mallory", u64::MAX);
        detector.record_many("mallory", u64::MAX);
        detector.record("alice");
        assert_eq!(detector.pass().await, Ok(1));
        assert_eq!(detector.flagged(), ["mallory"]);
        assert_eq!(detector.unrecorded(), 0);
    });
}

#[test]
fn pass_dropped_in_flight_keeps_what_it_did_not_send() {
    on_server(async |server| {
        let store = server.store().deadline(PATIENT);
        let detector = Detector::new(&store, "abuse", slow(10));
        for caller in 0..600 {
            detector.record_many(&caller.to_string(), 11);
        }
        server.stop();
        {
            let mut pass = std::pin::pin!(detector.pass());
            // The first of 19 calls is in flight.
            let waits = std::future::poll_fn(|context| {
                std::task::Poll::Ready(pass.as_mut().poll(context).is_pending())
            });
            assert!(waits.await);
        }
        server.go_on();
        assert_eq!(detector.pass().await, Ok(600 - 32));
    });
}

#[test]
#[should_panic = "a detector cannot track 0 callers"]
fn callers_of_zero_panics() {
    let server = Server::start();
    let runtime = runtime();
    let _inside = runtime.enter();
    let _detector = Detector::new(&server.store().deadline(PATIENT), "abuse", slow(10)).callers(0);
}
