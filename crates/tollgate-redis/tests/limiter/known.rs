//! Tests cached denials: the callers that wait because of one, and those that do not.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant, SystemTime};

use tokio::task::JoinSet;
use tollgate::rate::Oversize;
use tollgate::{Algorithm, ErrorKind, Quota};
use tollgate_redis::{Fallback, RateLimiter, Source, StoreError};

use crate::support::proxy::{Mode, Proxy};
use crate::support::server::Server;
use crate::support::{PATIENT, ask, failure, on_server, one_thread, runtime, slow, until, waits};

/// A key is kept for as long as it has a debt under its present quota.
#[test]
fn set_quota_to_a_slower_one_keeps_the_key_long_enough() {
    on_server(async |server| {
        let algorithms = [
            Algorithm::Gcra,
            Algorithm::TokenBucket,
            Algorithm::SlidingLog,
            Algorithm::SlidingWindow,
        ];
        for algorithm in algorithms {
            let fast = Quota::new(10, Duration::from_millis(200)).burst(10);
            let key = algorithm.to_string();
            let limiter = RateLimiter::new(&server.store(), &key, fast).algorithm(algorithm);
            limiter.acquire_many(10).await.unwrap();
            limiter.set_quota(match algorithm {
                Algorithm::SlidingWindow => Quota::new(1, Duration::from_millis(200)),
                _ => slow(10),
            });
            limiter.try_acquire().await.unwrap_err();
            let kept = server.time_to_live(&key);
            let reset = limiter.peek(1).await.unwrap().reset_after;
            assert!(kept >= reset, "{algorithm}: {kept:?}, {reset:?}");
        }
    });
}

/// A caller that waits for `retry_after` is not too early, however long the call was in flight.
#[test]
fn retry_after_over_a_slow_network_is_not_before_the_server_admits() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let store = proxy.store().deadline(PATIENT);
        let quota = Quota::per_second(1).burst(1);
        let limiter = RateLimiter::new(&store, "k", quota).coalesce(false);
        limiter.charge(3_600).await.unwrap();
        for slow in [2, 10, 50].map(Duration::from_millis) {
            proxy.set(Mode::BlackHole);
            let mut call = std::pin::pin!(limiter.try_acquire());
            assert!(waits(&mut call).await);
            let sent = Instant::now();
            until(async || sent.elapsed() > slow).await;
            proxy.set(Mode::Pass);
            let refused = call.await.unwrap_err();
            let again = SystemTime::now() + refused.retry_after().unwrap();
            assert_eq!(Source::of(&refused), Some(Source::Store));
            assert!(again >= due(server), "it was {slow:?} on its way");
            // Forgets the denial.
            limiter.set_quota(Quota::per_second(1).burst(2));
            limiter.set_quota(quota);
        }
    });
}

/// Returns the time at which a limit with a burst of 1 admits the next call, by the server's clock.
fn due(server: &Server) -> SystemTime {
    let value: String = ask(server, &["GET", "k"]);
    let numbers = value.split(':').skip(1);
    let numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap()).collect();
    // A unit is paid off in each microsecond.
    SystemTime::UNIX_EPOCH + Duration::from_micros(numbers[0] + numbers[1])
}

/// Holds also if the wait was over before the reply arrived.
#[test]
fn retry_after_shorter_than_the_round_trip_is_the_wait_of_the_server() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let store = proxy.store().deadline(PATIENT);
        let limiter = RateLimiter::new(&store, "k", Quota::per_second(100));
        limiter.peek(1).await.unwrap();
        proxy.set(Mode::Delay(Duration::from_millis(50)));
        let (leader, one, two) = tokio::join!(
            limiter.try_acquire(),
            limiter.try_acquire(),
            limiter.try_acquire(),
        );
        leader.unwrap();
        // Meanwhile the debt was paid off, and the next call was for both of the others.
        one.unwrap();
        let refused = two.unwrap_err();
        assert_eq!(Source::of(&refused), Some(Source::Coalesced));
        assert_eq!(refused.retry_after(), Some(Duration::from_millis(10)));
    });
}

#[test]
fn retry_after_behind_a_queue_is_not_zero() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let store = proxy.store().deadline(PATIENT);
        let limiter = RateLimiter::new(&store, "k", slow(5));
        proxy.set(Mode::BlackHole);
        let mut first = std::pin::pin!(limiter.acquire());
        assert!(waits(&mut first).await);
        let refused = limiter.try_acquire_up_to(3).await.unwrap_err();
        assert!(refused.retry_after().unwrap() > Duration::ZERO);
        proxy.set(Mode::Pass);
        first.await.unwrap();
    });
}

#[test]
fn try_acquire_with_recheck_of_zero_is_denied() {
    on_server(async |server| {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(1)).recheck(Duration::ZERO);
        limiter.acquire().await.unwrap();
        let calls = store.calls();
        for _ in 0..10 {
            let refused = limiter.try_acquire().await.unwrap_err();
            assert_eq!(Source::of(&refused), Some(Source::Store));
        }
        assert_eq!(store.calls(), calls + 10);
        // Holds also while a caller waits, and that caller does not call the server all the time.
        let _waits = tokio::spawn(limiter.acquire());
        until(async || limiter.waiting() == 1).await;
        limiter.try_acquire().await.unwrap_err();
    });
}

#[test]
fn set_quota_while_the_server_is_asked_forgets_the_denial() {
    on_server(async |server| {
        let store = server.store();
        let hour = Duration::from_secs(3_600);
        let limiter = RateLimiter::new(&store, "k", slow(1)).recheck(hour);
        limiter.acquire().await.unwrap();
        server.stop();
        let calls = store.calls();
        let waits = tokio::spawn(limiter.acquire());
        until(async || store.calls() == calls + 1).await;
        // The rule is the same in the end, but the denial is older than the change.
        limiter.set_quota(slow(2));
        limiter.set_quota(slow(1));
        server.go_on();
        until(async || store.calls() == calls + 2).await;
        waits.abort();
    });
}

#[test]
fn try_acquire_while_the_driver_sleeps_is_answered() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", slow(1))
            .recheck(Duration::from_millis(1))
            .jitter(Duration::from_secs(3_600));
        limiter.acquire().await.unwrap();
        let mut first = limiter.acquire();
        for _ in 0..100 {
            // Waits until the first caller has been denied, and sleeps.
            assert!(waits(&mut first).await);
            limiter.peek(0).await.unwrap();
        }
        for _ in 0..3 {
            limiter.try_acquire().await.unwrap_err();
        }
    });
}

/// A waker that reads the limiter when it is woken.
struct Looks(RateLimiter);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        self.0.waiting();
    }
}

#[test]
fn waker_that_uses_the_limiter_does_not_deadlock() {
    let server = Server::start();
    one_thread().block_on(async {
        let limiter = RateLimiter::new(&server.store(), "k", slow(1));
        limiter.acquire().await.unwrap();
        let waker = Waker::from(Arc::new(Looks(limiter.clone())));
        let mut context = Context::from_waker(&waker);
        let mut line: Vec<_> = (0..5).map(|_| Box::pin(limiter.acquire())).collect();
        for _ in 0..20 {
            for waiter in &mut line {
                assert!(waiter.as_mut().poll(&mut context).is_pending());
            }
            limiter.peek(0).await.unwrap();
            drop(line.pop());
            line.push(Box::pin(limiter.acquire()));
        }
    });
}

#[test]
fn acquire_beyond_max_waiters_is_refused() {
    on_server(async |server| {
        let none = RateLimiter::new(&server.store(), "none", slow(2)).max_waiters(0);
        none.acquire().await.unwrap();
        none.acquire().await.unwrap();
        let refused = none.acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QueueFull);
        let refused = none.acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QueueFull);

        // All calls that come at once are admitted, as long as there are enough tokens.
        let two = RateLimiter::new(&server.store(), "two", slow(20)).max_waiters(2);
        let mut tasks = JoinSet::new();
        for _ in 0..26 {
            let two = two.clone();
            tasks.spawn(async move { two.acquire().await.map(drop).map_err(|it| it.kind()) });
        }
        let mut admitted = 0;
        for _ in 0..24 {
            match tasks.join_next().await.unwrap().unwrap() {
                Ok(()) => admitted += 1,
                Err(kind) => assert_eq!(kind, ErrorKind::QueueFull),
            }
        }
        assert_eq!((admitted, two.waiting()), (20, 2));
        let refused = two.acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QueueFull);
    });
}

#[test]
fn acquire_many_of_too_much_is_refused_alone() {
    on_server(async |server| {
        for algorithm in [Algorithm::Gcra, Algorithm::SlidingLog] {
            let limiter = RateLimiter::new(&server.store(), algorithm.to_string(), slow(10))
                .algorithm(algorithm)
                .oversize(Oversize::Overdraft);
            let mut line: Vec<_> = [1, 1, 1 << 60, 1]
                .map(|n| Box::pin(limiter.acquire_many(n)))
                .into();
            let mut answers = Vec::new();
            for waiter in &mut line {
                answers.push(waiter.await.map_err(|error| error.kind()));
            }
            let kinds: Vec<_> = answers.iter().map(|it| it.as_ref().err()).collect();
            let large = &ErrorKind::ExceedsCapacity;
            assert_eq!(kinds, [None, None, Some(large), None], "{algorithm}");
            assert_eq!(limiter.try_acquire_up_to(u64::MAX).await.unwrap().cost(), 7);
        }
    });
}

#[test]
fn set_quota_without_a_server_does_not_renew_the_share() {
    on_server(async |server| {
        let store = server.store();
        let limiter =
            RateLimiter::new(&store, "k", slow(20)).fallback(Fallback::Local { share: 4 });
        server.kill();
        let mut admitted = 0;
        for round in 0..40 {
            limiter.set_quota(slow(20 + round % 2));
            admitted += u32::from(limiter.try_acquire().await.is_ok());
        }
        assert_eq!(admitted, 5);
    });
}

#[test]
fn acquire_with_prefetch_on_a_stopped_server_ends_after_one_deadline() {
    on_server(async |server| {
        let store = server.store().deadline(Duration::from_millis(200));
        let limiter =
            RateLimiter::new(&store, "k", slow(1000)).prefetch(10, Duration::from_secs(60));
        // From here on tokens are held, and no call is in flight.
        until(async || limiter.acquire().await.unwrap().source() == Source::TokenCache).await;
        server.stop();
        let calls = store.calls();
        limiter.try_acquire_many(50).await.unwrap_err();
        assert_eq!(store.calls(), calls + 1);
        server.go_on();
    });
}

#[test]
fn wait_on_a_thread_ends_with_the_runtime() {
    let server = Server::start();
    let gone = runtime();
    let (limiter, wait) = gone.block_on(async {
        let limiter = RateLimiter::new(&server.store(), "k", slow(1));
        limiter.acquire().await.unwrap();
        let waits = limiter.clone();
        let wait = tokio::task::spawn_blocking(move || waits.acquire().wait());
        until(async || limiter.waiting() == 1).await;
        for _ in 0..20 {
            limiter.peek(0).await.unwrap();
        }
        (limiter, wait)
    });
    gone.shutdown_background();
    let refused = runtime().block_on(wait).unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Store);
    drop(limiter);
}

// The decisions while the store fails.

#[test]
fn fallback_local_uses_the_same_algorithm_and_leaves_a_debt() {
    on_server(async |server| {
        let (quota, store) = (Quota::per_day(8), server.store());
        let limiter = |algorithm| {
            RateLimiter::new(&store, "k", quota)
                .algorithm(algorithm)
                .fallback(Fallback::Local { share: 4 })
        };
        let window = limiter(Algorithm::FixedWindow);
        let log = limiter(Algorithm::SlidingLog);
        server.kill();
        for limiter in [&window, &log] {
            // Takes all of the share at once, because this algorithm has no even rate.
            let charge = limiter.try_acquire_many(2).await.unwrap();
            assert_eq!(charge.source(), Source::Fallback);
            let refused = limiter.try_acquire().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::RateLimited);
            assert_eq!(Source::of(&refused), Some(Source::Fallback));
            limiter.refund(charge).await.unwrap();
        }
        // Takes more than a share, but not more than the quota.
        let other = limiter(Algorithm::FixedWindow);
        other.try_acquire_many(8).await.unwrap();
        other.try_acquire().await.unwrap_err();
        let refused = other.try_acquire_many(9).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ExceedsCapacity);
    });
}

#[test]
fn reserve_and_try_acquire_up_to_without_a_server_use_the_fallback() {
    on_server(async |server| {
        let store = server.store();
        let limiter = |fallback| RateLimiter::new(&store, "k", slow(8)).fallback(fallback);
        let closed = limiter(Fallback::FailClosed);
        let open = limiter(Fallback::FailOpen);
        let local = limiter(Fallback::Local { share: 4 });
        server.kill();
        let refused = closed.reserve(Duration::MAX).await.unwrap_err();
        let _typed = failure(&refused);

        let reserved = open.reserve_many(3, Duration::ZERO).await.unwrap();
        assert_eq!((reserved.cost(), reserved.delay()), (3, Duration::ZERO));
        assert_eq!(open.try_acquire_up_to(5).await.unwrap().cost(), 5);

        let charge = local.try_acquire_up_to(5).await.unwrap();
        assert_eq!((charge.cost(), charge.source()), (2, Source::Fallback));
        let refused = local.reserve(Duration::MAX).await.unwrap_err();
        assert_eq!(Source::of(&refused), Some(Source::Fallback));
    });
}

#[test]
fn settle_of_the_fallback_refunds_the_rest_alone() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", slow(8));
        let limiter = limiter.fallback(Fallback::Local { share: 4 });
        server.kill();
        let charge = limiter.try_acquire_many(2).await.unwrap();
        limiter.settle(charge, 1).await.unwrap();
        limiter.try_acquire().await.unwrap();
        let refused = limiter.try_acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
    });
}

#[test]
fn acquire_that_fails_fails_the_whole_queue() {
    on_server(async |server| {
        let deadline = Duration::from_millis(300);
        let store = server.store().deadline(deadline);
        let limiter = RateLimiter::new(&store, "k", slow(100)).fail_waiting();
        limiter.acquire().await.unwrap();
        server.stop();
        // The second caller joins in the poll in which the first has called the server.
        let (first, second) = tokio::join!(limiter.acquire(), limiter.acquire());
        assert_eq!(failure(&first.unwrap_err()), StoreError::Timeout);
        // The second caller has no deadline of its own after that of the first one, because no call
        // was sent for it.
        assert_eq!(failure(&second.unwrap_err()), StoreError::Unavailable);
        server.go_on();
    });
}
