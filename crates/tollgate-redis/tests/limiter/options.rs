//! Tests the options of a limiter.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::rate::Oversize;
use tollgate::{Algorithm, ErrorKind, Quota};
use tollgate_redis::{Charge, Detector, Keyed, LimitSet, RateLimiter, Source, StoreError};

use crate::support::{algorithms, on_server, slow, until, waits};

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn acquire_many_of_more_than_the_burst_leaves_a_debt() {
    on_server(async |server| {
        let limiter =
            RateLimiter::new(&server.store(), "k", slow(10)).oversize(Oversize::Overdraft);
        let charge = limiter.acquire_many(15).await.unwrap();
        assert_eq!(charge.cost(), 15);
        assert_eq!(limiter.peek(0).await.unwrap().remaining, 0);
        let never = RateLimiter::new(&server.store(), "k", slow(10));
        for n in [11, u64::MAX] {
            assert!(limiter.peek(n).await.unwrap().retry_after.is_some());
            assert_eq!(never.peek(n).await.unwrap().retry_after, None);
        }
        let refused = limiter.try_acquire().await.unwrap_err();
        // Five units are owed beyond the burst, and one more must be paid off.
        let after = refused.retry_after().unwrap();
        assert!(after > DAY / 2 && after <= DAY * 6 / 10, "{after:?}");
        // The call is admitted alone, once nothing is owed.
        let fresh = RateLimiter::new(&server.store(), "k", slow(10)).oversize(Oversize::Overdraft);
        let refused = fresh.try_acquire_many(15).await.unwrap_err();
        assert!(refused.retry_after().unwrap() > DAY);
        limiter.refund(charge).await.unwrap();
        assert_eq!(limiter.peek(0).await.unwrap().remaining, 10);
    });
}

/// The last of these units is due in 65,535 times nine years, which no server can answer in microseconds.
#[test]
fn acquire_many_of_a_log_that_is_owed_for_too_long_is_answered_with_the_longest_time() {
    on_server(async |server| {
        let nine_years = Quota::new(1, Duration::from_secs(280_000_000));
        let limiter = RateLimiter::new(&server.store(), "k", nine_years)
            .algorithm(Algorithm::SlidingLog)
            .oversize(Oversize::Overdraft);
        let charge = limiter.acquire_many(65_536).await.unwrap();
        assert_eq!(charge.cost(), 65_536);
        let longest = Duration::from_micros(1 << 52);
        let peek = limiter.peek(1).await.unwrap();
        assert_eq!(
            (peek.retry_after, peek.reset_after),
            (Some(longest), longest)
        );
    });
}

#[test]
fn retry_after_with_jitter_is_never_earlier() {
    on_server(async |server| {
        let hour = Duration::from_secs(3_600);
        let exact = RateLimiter::new(&server.store(), "k", Quota::per_day(1));
        let jittered = RateLimiter::new(&server.store(), "k", Quota::per_day(1))
            .jitter(Duration::from_secs(3_600));
        exact.acquire().await.unwrap();
        let mut waits = Vec::new();
        for _ in 0..50 {
            let wait = jittered.try_acquire().await.unwrap_err().retry_after();
            let least = exact.try_acquire().await.unwrap_err().retry_after();
            let (wait, least) = (wait.unwrap(), least.unwrap());
            assert!(
                wait >= least && wait <= least + hour + hour,
                "{wait:?}, {least:?}"
            );
            waits.push(wait);
        }
        waits.sort_unstable();
        assert!(waits[49] - waits[0] > hour / 10);
        let refused = jittered.try_acquire_up_to(3).await.unwrap_err();
        assert!(refused.retry_after() > Some(DAY - hour));
    });
}

#[test]
fn set_quota_with_waiters_refuses_or_admits_them() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", slow(10));
        limiter.acquire_many(10).await.unwrap();
        let waits = tokio::spawn(limiter.acquire_many(5));
        until(async || limiter.waiting() == 1).await;
        limiter.set_quota(slow(3));
        let refused = waits.await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ExceedsCapacity);
        assert_eq!(refused.capacity(), Some(3));

        let waits = tokio::spawn(limiter.acquire_many(3));
        until(async || limiter.waiting() == 1).await;
        limiter.set_quota(slow(1000));
        let charge = waits.await.unwrap().unwrap();
        assert_eq!(charge.decision().limit, 1000);
    });
}

#[test]
fn acquire_after_the_recheck_time_asks_again() {
    on_server(async |server| {
        let limiter =
            RateLimiter::new(&server.store(), "k", slow(3)).recheck(Duration::from_millis(20));
        let other = RateLimiter::new(&server.store(), "k", slow(3));
        let charge = other.acquire_many(3).await.unwrap();
        let waits = tokio::spawn(limiter.acquire());
        until(async || limiter.waiting() == 1).await;
        limiter.try_acquire().await.unwrap_err();
        // Another process refunds; this one gets no notice of it.
        other.refund(charge).await.unwrap();
        waits.await.unwrap().unwrap();
        until(async || limiter.try_acquire().await.is_ok()).await;
    });
}

#[test]
fn source_of_each_decision_is_right() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", slow(3));
        assert_eq!(limiter.acquire().await.unwrap().source(), Source::Store);
        let nothing = limiter.try_acquire_many(0).await.unwrap();
        assert_eq!(nothing.source(), Source::Nobody);
        limiter.acquire_many(2).await.unwrap();
        let mut sources = Vec::new();
        for _ in 0..3 {
            let refused = limiter.try_acquire().await.unwrap_err();
            sources.push(Source::of(&refused).unwrap());
        }
        assert_eq!(
            sources,
            [Source::Store, Source::DeniedCache, Source::DeniedCache]
        );
        // Callers that come together.
        let fresh = RateLimiter::new(&server.store(), "k", slow(3));
        let mut tries: Vec<_> = (0..20).map(|_| Box::pin(fresh.try_acquire())).collect();
        let mut answers = Vec::new();
        for one in &mut tries {
            // On a busy machine, the first callers get replies before the last ones call.
            let answer = poll_fn(|context| match one.as_mut().poll(context) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending => Poll::Ready(None),
            });
            answers.push(answer.await);
        }
        let mut sources = Vec::new();
        for (one, answer) in tries.into_iter().zip(answers) {
            let answer = match answer {
                Some(answer) => answer,
                None => one.await,
            };
            sources.push(Source::of(&answer.unwrap_err()).unwrap());
        }
        assert_eq!(sources[0], Source::Store);
        assert!(
            sources[1..]
                .iter()
                .all(|it| [Source::Coalesced, Source::DeniedCache].contains(it))
        );
    });
}

#[test]
fn try_acquire_up_to_takes_what_there_is() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", slow(5));
        let first = limiter.try_acquire_up_to(3).await.unwrap();
        assert_eq!(first.cost(), 3);
        let second = limiter.try_acquire_up_to(u64::MAX).await.unwrap();
        assert_eq!((second.cost(), second.source()), (2, Source::Store));
        let refused = limiter.try_acquire_up_to(2).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
        assert!(refused.retry_after().is_some());
        limiter.refund(first).await.unwrap();
        assert_eq!(limiter.peek(0).await.unwrap().remaining, 3);
        // No waiter is overtaken.
        let _waits = tokio::spawn(limiter.acquire_many(5));
        until(async || limiter.waiting() == 1).await;
        limiter.try_acquire_up_to(1).await.unwrap_err();
    });
}

#[test]
fn acquire_while_another_is_not_polled_completes() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", slow(5));
        let mut first = pin!(limiter.acquire_many(2));
        assert!(waits(&mut first).await);
        for _ in 0..3 {
            limiter.acquire().await.unwrap();
        }
        assert_eq!(first.await.unwrap().cost(), 2);
        assert_eq!(limiter.peek(0).await.unwrap().remaining, 0);
    });
}

#[test]
fn acquire_dropped_after_one_poll_charges_nothing() {
    on_server(async |server| {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(5));
        let look = RateLimiter::new(&server.store(), "k", slow(5));
        let mut context = Context::from_waker(Waker::noop());
        let mut calls = store.calls();
        for round in 0..30 {
            let nothing = Duration::ZERO;
            let mut gone: Pin<Box<dyn Future<Output = Charge>>> = match round % 3 {
                0 => Box::pin(async { limiter.acquire_many(2).await.unwrap() }),
                1 => Box::pin(async { limiter.try_acquire_up_to(2).await.unwrap() }),
                _ => Box::pin(async {
                    let reserved = limiter.reserve_many(2, nothing).await.unwrap();
                    reserved.ready().await.unwrap()
                }),
            };
            if let Poll::Ready(charge) = gone.as_mut().poll(&mut context) {
                // The server was faster.
                limiter.refund(charge).await.unwrap();
            }
            drop(gone);
            // One call that charges, and one that refunds.
            calls += 2;
            until(async || store.calls() >= calls).await;
            until(async || look.peek(0).await.unwrap().remaining == 5).await;
            until(async || limiter.waiting() == 0).await;
        }
    });
}

// Invalid numbers and keys.

#[test]
fn charge_of_too_much_is_an_error() {
    on_server(async |server| {
        let store = server.store();
        for algorithm in algorithms() {
            let limiter = RateLimiter::new(&store, algorithm.to_string(), Quota::per_hour(1000))
                .algorithm(algorithm);
            for n in [u64::MAX, 1 << 60] {
                let error = limiter.charge(n).await.unwrap_err();
                assert_eq!(error, StoreError::Script, "{algorithm}");
            }
            let large = limiter.charge(1 << 45).await;
            assert_eq!(large.is_err(), algorithm == Algorithm::SlidingLog);
            limiter.peek(1).await.unwrap();
        }
    });
}

#[test]
fn peek_of_a_key_of_another_rule_is_an_error() {
    on_server(async |server| {
        let store = server.store();
        let by = |algorithm| RateLimiter::new(&store, "k", slow(10)).algorithm(algorithm);
        let kinds = [
            Algorithm::Gcra,
            Algorithm::SlidingWindow,
            Algorithm::SlidingLog,
        ];
        for first in kinds {
            let charge = by(first).acquire().await.unwrap();
            for other in kinds.into_iter().filter(|other| *other != first) {
                assert_eq!(by(other).peek(1).await, Err(StoreError::WrongType));
            }
            by(first).refund(charge).await.unwrap();
        }
    });
}

#[test]
fn limit_set_acquire_many_of_more_than_a_burst_is_never_admitted() {
    on_server(async |server| {
        let limits = LimitSet::new(&server.store())
            .limit("a", slow(5))
            .limit("b", slow(9));
        let outcome = limits.try_acquire_many(6).await.unwrap();
        assert!(!outcome.is_admitted());
        assert_eq!(outcome.violated().collect::<Vec<_>>(), [0]);
        let decisions = limits.peek(6).await.unwrap();
        let waits = [decisions[0].retry_after, decisions[1].retry_after];
        assert_eq!(waits, [None, Some(Duration::ZERO)]);
        let refused = limits.acquire_many(6).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ExceedsCapacity);
    });
}

#[test]
#[should_panic(expected = "the key \"a\" is given twice")]
fn limit_set_limit_of_a_key_twice_panics() {
    on_server(async |server| {
        let _ = LimitSet::new(&server.store())
            .limit("a", slow(5))
            .limit("a", slow(9));
    });
}

#[test]
fn pass_at_the_threshold_does_not_block() {
    on_server(async |server| {
        let detector = Detector::new(&server.store(), "abuse", slow(600));
        detector.record_many("alice", 600);
        assert_eq!(detector.pass().await, Ok(0));
        // Less than one unit is paid off while the test runs.
        detector.record_many("alice", 2);
        assert_eq!(detector.pass().await, Ok(1));
    });
}

// The limiters of many keys.

#[test]
fn key_of_the_same_name_shares_calls_and_queue() {
    on_server(async |server| {
        let store = server.store();
        let users = Keyed::new(RateLimiter::new(&store, "k", slow(2)), 10);
        users.key("a").acquire_many(2).await.unwrap();
        let refused = users.key("a").try_acquire().await.unwrap_err();
        assert_eq!(Source::of(&refused), Some(Source::Store));
        let refused = users.key("a").try_acquire().await.unwrap_err();
        assert_eq!(Source::of(&refused), Some(Source::DeniedCache));
        // Another key has no cached denial, and is a separate limit.
        users.key("b").try_acquire_many(2).await.unwrap();
        assert_eq!(store.calls(), 3);

        let waits = users.key("a");
        let _waits = tokio::spawn(async move { waits.acquire().await });
        until(async || users.key("a").waiting() == 1).await;
        assert_eq!(users.key("b").waiting(), 0);
        assert_eq!(users.key("b").key(), "k/b");
    });
}

#[test]
fn key_of_names_that_look_alike_is_another_limit() {
    on_server(async |server| {
        let store = server.store();
        let limiter = |name: &str| RateLimiter::new(&store, name, slow(1));
        let limiters = [
            Keyed::new(limiter("api"), 10).key("admin:7"),
            Keyed::new(limiter("api:admin"), 10).key("7"),
            Keyed::new(limiter("api/admin"), 10).key("7"),
            Keyed::new(limiter("api"), 10).key("admin/7"),
            Keyed::new(limiter("{abuse}"), 10).key("detector/7"),
            limiter("api:admin:7"),
            limiter("api/admin:7"),
            limiter("tollgate:born"),
        ];
        for limiter in &limiters {
            limiter.try_acquire().await.unwrap();
        }
        for limiter in &limiters {
            limiter.try_acquire().await.unwrap_err();
        }
    });
}

#[test]
fn key_with_another_quota_keeps_it() {
    on_server(async |server| {
        let users = Keyed::new(RateLimiter::new(&server.store(), "k", slow(2)), 10);
        users.key_with("a", slow(5)).acquire_many(5).await.unwrap();
        assert_eq!(users.key("a").quota(), slow(5));
        assert_eq!(users.key("b").quota(), slow(2));
        users.key_with("a", slow(6)).acquire().await.unwrap();
    });
}

#[test]
fn key_beyond_the_bound_evicts_and_waiters_go_on() {
    on_server(async |server| {
        let users = Keyed::new(RateLimiter::new(&server.store(), "k", slow(1)), 1);
        let first = users.key("0");
        first.acquire().await.unwrap();
        let waits = tokio::spawn(first.acquire());
        until(async || first.waiting() == 1).await;
        let _second = users.key("1");
        assert_eq!(users.len(), 1);
        assert_eq!(users.key("0").waiting(), 0, "another one");
        first.set_quota(slow(1000));
        waits.await.unwrap().unwrap();
    });
}

#[test]
fn key_of_many_at_rest_keeps_their_quotas_and_no_limiter() {
    on_server(async |server| {
        let users = Keyed::new(RateLimiter::new(&server.store(), "k", slow(1)), 1000);
        for key in 0..100 {
            let quota = slow(if key < 50 { 1 } else { 2 });
            let user = users.key_with(&key.to_string(), quota);
            user.acquire().await.unwrap();
        }
        let keeps_two = async || {
            users.key("other");
            users.len() <= 2
        };
        until(keeps_two).await;
        assert_eq!(users.key("7").quota(), slow(1));
        assert_eq!(users.key("77").quota(), slow(2));
        users.key("77").acquire().await.unwrap();
        users.key("77").try_acquire().await.unwrap_err();
    });
}

#[test]
fn key_in_use_or_denied_keeps_its_limiter() {
    on_server(async |server| {
        let store = server.store();
        let model = RateLimiter::new(&store, "k", slow(1)).recheck(Duration::from_secs(3_600));
        let users = Keyed::new(model, 1000);
        users.key("denied").acquire().await.unwrap();
        users.key("denied").try_acquire().await.unwrap_err();
        let used = users.key("used");
        let waits = users.key("waits");
        waits.acquire().await.unwrap();
        let waits = tokio::spawn(waits.acquire());
        until(async || users.key("waits").waiting() == 1).await;
        for key in 0..100 {
            users.key(&key.to_string());
        }
        let calls = store.calls();
        users.key("denied").try_acquire().await.unwrap_err();
        assert_eq!(store.calls(), calls, "the denial is remembered");
        used.close();
        assert!(users.key("used").is_closed());
        assert_eq!(users.key("waits").waiting(), 1);
        waits.abort();
    });
}

#[test]
#[should_panic(expected = "a map cannot be limited to 0 keys")]
fn new_with_zero_keys_panics() {
    on_server(async |server| {
        let _ = Keyed::new(RateLimiter::new(&server.store(), "k", slow(1)), 0);
    });
}
