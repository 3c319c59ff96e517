//! LimitSet limits in one call.

use std::time::Duration;

use crate::support::server::Server;
use crate::support::{PATIENT, on_server, one_thread, slow, until};
use tollgate::{Algorithm, ErrorKind, Quota, Throttle};
use tollgate_redis::{LimitSet, RateLimiter, Store, StoreError};

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
        assert!(refused.retry_after() > Duration::from_secs(3_600));
        assert!(refused.into_charges().is_none());
        assert_eq!(free().await, [3, 1, 6]);

        // The same keys by themselves.
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
            assert_eq!(never.retry_after(), Duration::MAX);
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

/// The refund of another set's charges takes no refund of its own charges with it.
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
        // The task that sends begins when this one yields.
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
            LimitSet::new(store).limit("k", quick)
        };
        let stores = [(); 2].map(|()| server.store());
        let soon = limits(&stores[0]);
        // After a time that is drawn out of a year.
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
                // On a slow machine there is enough for it by then.
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
