//! Tests the statistics of stores, rate limiters, sets, semaphores and detectors, and their metrics.

use std::time::Duration;

use tollgate::{ErrorKind, Quota};
use tollgate_redis::{
    Detector, DetectorStatistics, Fallback, Keyed, LimitSet, LimitStatistics, RateLimiter,
    Semaphore, Store, StoreError, StoreStatistics,
};

use crate::support::scripted::Scripted;
use crate::support::{PATIENT, ask, on_server, runtime, slow, until, waits};

/// The errors that a store has counted.
fn failures(statistics: &StoreStatistics) -> Vec<(StoreError, u64)> {
    let all = statistics.all_failures();
    all.filter(|(_, count)| *count > 0).collect()
}

#[test]
fn statistics_of_a_store_count_calls_replies_and_errors() {
    on_server(async |server| {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(5));
        for _ in 0..3 {
            limiter.acquire().await.unwrap();
        }
        crate::support::ask::<()>(server, &["SET", "other", "foreign"]);
        let foreign = RateLimiter::new(&store, "other", slow(5));
        foreign.acquire().await.unwrap_err();

        let statistics = store.statistics();
        assert_eq!((statistics.calls, statistics.succeeded), (4, 3));
        assert_eq!(failures(&statistics), [(StoreError::WrongType, 1)]);
        assert_eq!(statistics.latency.count(), 4);
        assert!(statistics.latency.sum() > Duration::ZERO);
        assert_eq!((statistics.connections, statistics.openings), (1, 0));
        assert!(statistics.is_connected && !statistics.is_broken);
    });
}

#[test]
fn statistics_of_a_broken_store_count_openings_and_rejected_calls() {
    runtime().block_on(async {
        let year = Duration::from_secs(365 * 24 * 3_600);
        let store = Store::new("redis://127.0.0.1:1/").unwrap();
        let store = store.breaker(2, year, year);
        let limiter = RateLimiter::new(&store, "k", slow(5)).fallback(Fallback::FailOpen);
        for _ in 0..5 {
            limiter.acquire().await.unwrap();
        }
        let statistics = store.statistics();
        assert_eq!((statistics.calls, statistics.succeeded), (2, 0));
        let expected = [(StoreError::Unavailable, 2), (StoreError::BreakerOpen, 3)];
        assert_eq!(failures(&statistics), expected);
        assert_eq!((statistics.openings, statistics.is_broken), (1, true));
        assert_eq!(
            (statistics.connections, statistics.is_connected),
            (0, false)
        );
        assert_eq!(statistics.latency.count(), 2);
        let of_limit = limiter.statistics();
        assert_eq!((of_limit.admitted, of_limit.fallbacks), (5, 5));
    });
}

/// The outcomes of a limit, in the order of its fields.
fn outcomes(statistics: LimitStatistics) -> [u64; 5] {
    [
        statistics.admitted,
        statistics.denied,
        statistics.refused,
        statistics.failed,
        statistics.abandoned,
    ]
}

#[test]
fn statistics_of_a_limiter_count_each_outcome_once() {
    on_server(async |server| {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(3));
        assert_eq!(limiter.statistics(), LimitStatistics::default());
        limiter.acquire_many(2).await.unwrap();
        limiter.try_acquire_up_to(9).await.unwrap();
        limiter.try_acquire().await.unwrap_err();
        // Known by now.
        limiter.try_acquire().await.unwrap_err();
        let error = limiter.try_acquire_up_to(1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RateLimited);
        let error = limiter.acquire_many(4).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
        limiter.reserve(Duration::ZERO).await.unwrap_err();
        let mut waiter = limiter.acquire();
        assert!(waits(&mut waiter).await);
        assert_eq!(limiter.statistics().waiting, 1);
        drop(waiter);

        let statistics = limiter.statistics();
        assert_eq!(outcomes(statistics), [2, 4, 1, 0, 1]);
        assert_eq!((statistics.cached, statistics.waiting), (2, 0));
        assert_eq!((statistics.fallbacks, statistics.turns), (0, 0));
        // An unused future is no call.
        drop(limiter.acquire());
        assert_eq!(limiter.statistics(), statistics);
    });
}

#[test]
fn statistics_of_waiters_count_turns_and_those_that_are_given_back() {
    on_server(async |server| {
        let store = server.store();
        // A turn comes after a second, and is not used here.
        let limiter =
            RateLimiter::new(&store, "k", Quota::per_second(1)).horizon(Duration::from_secs(60));
        limiter.acquire().await.unwrap();
        let waiters: Vec<_> = (0..3)
            .map(|_| tokio::spawn(limiter.acquire().into_inner()))
            .collect();
        until(async || limiter.statistics().turns >= 1).await;
        for waiter in waiters {
            waiter.abort();
        }
        until(async || {
            let statistics = limiter.statistics();
            statistics.waiting == 0
                && statistics.unused_turns + statistics.admitted - 1 == statistics.turns
        })
        .await;
        let statistics = limiter.statistics();
        assert_eq!(statistics.admitted + statistics.abandoned, 4);
    });
}

#[test]
fn statistics_of_a_shared_request_count_its_calls_as_coalesced() {
    on_server(async |server| {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(10));
        limiter.acquire().await.unwrap();
        server.stop();
        let mut first = limiter.acquire();
        assert!(waits(&mut first).await);
        let mut others = [limiter.acquire(), limiter.acquire()];
        for other in &mut others {
            assert!(waits(other).await);
        }
        server.go_on();
        first.await.unwrap();
        for other in others {
            other.await.unwrap();
        }
        let statistics = limiter.statistics();
        assert_eq!((statistics.admitted, statistics.coalesced), (4, 2));
    });
}

#[test]
fn statistics_of_keys_are_those_of_their_map() {
    on_server(async |server| {
        let store = server.store();
        let each = RateLimiter::new(&store, "user", slow(1));
        let users = Keyed::new(each.clone(), 1);
        for user in ["a", "b", "a"] {
            let _ = users.key(user).try_acquire().await;
        }
        assert_eq!(outcomes(each.statistics()), [2, 1, 0, 0, 0]);
        assert_eq!(users.key("c").statistics(), each.statistics());
    });
}

#[test]
fn statistics_of_a_limit_whose_store_fails_count_failures() {
    runtime().block_on(async {
        let server = Scripted::start("-LOADING Redis is loading the dataset in memory").await;
        let limiter = RateLimiter::new(&server.store(), "k", slow(5));
        limiter.try_acquire().await.unwrap_err();
        assert_eq!(outcomes(limiter.statistics()), [0, 0, 0, 1, 0]);
        let semaphore = Semaphore::new(&server.store(), "s", 1);
        semaphore.try_acquire().await.unwrap_err();
        assert_eq!(outcomes(semaphore.statistics()), [0, 0, 0, 1, 0]);
    });
}

#[test]
fn statistics_of_a_semaphore_count_each_outcome_once() {
    on_server(async |server| {
        let semaphore = Semaphore::new(&server.store(), "s", 1).grace(Duration::ZERO);
        let lease = semaphore.acquire().await.unwrap();
        semaphore.try_acquire().await.unwrap_err();
        let mut waiter = semaphore.acquire();
        assert!(waits(&mut waiter).await);
        assert_eq!(semaphore.statistics().waiting, 1);
        drop((waiter, lease));
        assert_eq!(outcomes(semaphore.statistics()), [1, 1, 0, 0, 1]);
        assert_eq!(semaphore.statistics().waiting, 0);
    });
}

#[test]
fn statistics_of_a_set_count_each_outcome_once() {
    on_server(async |server| {
        let set = LimitSet::new(&server.store())
            .limit("a", slow(3))
            .limit("b", slow(9));
        assert_eq!(set.statistics(), LimitStatistics::default());
        set.acquire_many(2).await.unwrap();
        assert!(set.try_acquire().await.unwrap().is_admitted());
        assert!(!set.try_acquire().await.unwrap().is_admitted());
        assert!(!set.try_acquire_many(4).await.unwrap().is_admitted());
        let error = set.acquire_many(4).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
        let mut waiter = Box::pin(set.acquire());
        assert!(waits(&mut waiter).await);
        assert_eq!(set.statistics().waiting, 1);
        drop(waiter);
        let statistics = set.statistics();
        assert_eq!(outcomes(statistics), [2, 1, 2, 0, 1]);
        assert_eq!((statistics.waiting, statistics.fallbacks), (0, 0));
        // An unused future is no call.
        drop(set.acquire());
        assert_eq!(set.statistics(), statistics);
    });
}

#[test]
fn statistics_of_waiters_of_a_set_count_turns() {
    on_server(async |server| {
        let set = LimitSet::new(&server.store())
            .limit("a", Quota::new(1, Duration::from_secs(4)))
            .limit("b", slow(9));
        set.acquire().await.unwrap();
        let waiter = tokio::spawn(set.acquire().into_inner());
        until(async || set.statistics().turns == 1).await;
        waiter.abort();
        until(async || set.statistics().unused_turns == 1).await;
        assert_eq!(outcomes(set.statistics()), [1, 0, 0, 0, 1]);
    });
}

/// Waiters join the line of the limit that lacked something, although it has enough again.
#[test]
fn statistics_of_waiters_of_a_set_that_need_no_turn_count_no_unused_turns() {
    on_server(async |server| {
        let store = server.store().deadline(PATIENT);
        let set = LimitSet::new(&store)
            .limit("a", Quota::new(1, Duration::from_secs(4)).burst(3))
            .limit("b", slow(9))
            .horizon(Duration::from_secs(100));
        set.acquire_many(3).await.unwrap();
        let waiter = tokio::spawn(set.acquire().into_inner());
        until(async || set.statistics().turns == 1).await;
        let () = ask(server, &["DEL", "a"]);
        let other = RateLimiter::new(&store, "b", slow(9));
        other.try_acquire_many(6).await.unwrap();
        for _ in 0..3 {
            let refused = set.acquire().timeout(Duration::from_secs(1)).await;
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
        }
        let statistics = set.statistics();
        assert!(
            statistics.unused_turns <= statistics.turns,
            "{statistics:?}"
        );
        waiter.abort();
    });
}

#[test]
fn statistics_of_a_set_whose_store_fails_count_failures_and_fallbacks() {
    runtime().block_on(async {
        let server = Scripted::start("-LOADING Redis is loading the dataset in memory").await;
        let set = LimitSet::new(&server.store()).limit("k", slow(5));
        set.try_acquire().await.unwrap_err();
        assert_eq!(outcomes(set.statistics()), [0, 0, 0, 1, 0]);
        let open = set.fallback(Fallback::FailOpen);
        open.acquire().await.unwrap();
        assert_eq!(outcomes(open.statistics()), [1, 0, 0, 0, 0]);
        assert_eq!(open.statistics().fallbacks, 1);
    });
}

#[test]
fn statistics_of_a_detector_count_records_and_denials() {
    on_server(async |server| {
        let detector = Detector::new(&server.store(), "abuse", slow(2)).callers(1);
        assert_eq!(detector.statistics(), DetectorStatistics::default());
        detector.record_many("a", 3);
        detector.record_many("b", 4);
        assert_eq!(detector.pass().await, Ok(1));
        detector.check("a").unwrap_err();
        detector.check("b").unwrap();
        let statistics = detector.statistics();
        assert_eq!((statistics.recorded, statistics.unrecorded), (3, 4));
        assert_eq!((statistics.denied, statistics.flagged), (1, 1));
        assert_eq!(statistics.failed, 0);
    });
}

#[test]
fn statistics_of_a_detector_whose_store_fails_count_each_record_once() {
    runtime().block_on(async {
        let server = Scripted::start("-LOADING Redis is loading the dataset in memory").await;
        let detector = Detector::new(&server.store(), "abuse", slow(2));
        detector.record("a");
        detector.pass().await.unwrap_err();
        let statistics = detector.statistics();
        assert_eq!((statistics.recorded, statistics.failed), (1, 1));
    });
}

#[cfg(feature = "metrics")]
#[test]
fn record_of_a_store_and_a_limit_shows_them_on_the_page() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    runtime().block_on(async {
        let server =
            Scripted::start("-READONLY You can't write against a read only replica.").await;
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(5));
        limiter.try_acquire().await.unwrap_err();
        let detector = Detector::new(&store, "abuse", slow(5));
        detector.record_many("caller", 7);
        // The second time sets the same numbers.
        for _ in 0..2 {
            metrics::with_local_recorder(&recorder, || {
                store.statistics().record("main");
                limiter.statistics().record("requests");
                detector.statistics().record("abuse");
            });
        }
    });
    let page = recorder.handle().render();
    for line in [
        "# TYPE tollgate_redis_calls_total counter",
        "tollgate_redis_calls_total{store=\"main\"} 1",
        "tollgate_redis_succeeded_total{store=\"main\"} 0",
        "tollgate_redis_failures_total{store=\"main\",kind=\"read_only\"} 1",
        "tollgate_redis_failures_total{store=\"main\",kind=\"breaker_open\"} 0",
        "tollgate_redis_latency_seconds_bucket{store=\"main\",le=\"+Inf\"} 1",
        "tollgate_redis_latency_seconds_count{store=\"main\"} 1",
        "tollgate_redis_breaker_open{store=\"main\"} 0",
        "tollgate_redis_connections_total{store=\"main\"} 1",
        "tollgate_redis_failed_total{limit=\"requests\"} 1",
        "tollgate_redis_admitted_total{limit=\"requests\"} 0",
        "tollgate_redis_waiting{limit=\"requests\"} 0",
        "tollgate_redis_recorded_total{limit=\"abuse\"} 7",
        "tollgate_redis_denied_total{limit=\"abuse\"} 0",
        "tollgate_redis_flagged{limit=\"abuse\"} 0",
    ] {
        assert!(page.lines().any(|one| one == line), "{line} in {page}");
    }
}
