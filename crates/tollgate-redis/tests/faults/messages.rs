//! Tests the fallback for each kind of failure, and that a limit whose calls fail alone pauses alone.

use std::time::Duration;

use tollgate::Algorithm;
use tollgate_redis::{Fallback, LimitSet, RateLimiter, Semaphore, Source, StoreError};

use super::help::{PATIENT, failure, slow, until};
use crate::support::scripted::Scripted;
use crate::support::server::Server;
use crate::support::{ask, on_server, runtime};

/// Far longer than a test.
const HOUR: Duration = Duration::from_secs(3_600);

/// Messages that no server of ours sends.
const UNKNOWN: [&str; 6] = [
    "-upstream failure",
    "-no upstream host",
    "-ERR Connection timed out",
    "-ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.",
    "-ERR max requests limit exceeded. Limit: 500000, Usage: 500000.",
    // Not an error, but no reply of a script either.
    "+QUEUED",
];

#[test]
fn acquire_with_an_unknown_answer_follows_each_fallback() {
    runtime().block_on(async {
        let server = Scripted::start("").await;
        for line in UNKNOWN {
            server.answer(line);
            let store = server.store().deadline(PATIENT);
            for algorithm in [Algorithm::Gcra, Algorithm::SlidingLog] {
                let limiter = RateLimiter::new(&store, "k", slow(10)).algorithm(algorithm);
                let error = limiter.try_acquire().await.unwrap_err();
                assert_eq!(failure(&error), StoreError::Unknown, "{line}");
                let open = limiter.fallback(Fallback::FailOpen);
                assert_eq!(open.acquire().await.unwrap().source(), Source::Fallback);
                let reserved = open.reserve(Duration::ZERO).await.unwrap();
                assert_eq!(reserved.ready().await.unwrap().source(), Source::Fallback);
                let local = open.fallback(Fallback::Local { share: 5 });
                assert_eq!(local.try_acquire_up_to(9).await.unwrap().cost(), 2);
            }
            if let Some(text) = line.strip_prefix("-ERR ") {
                let last = store.last_failure().unwrap();
                assert!(last.contains(text), "{last}");
            }
            assert!(!store.is_broken(), "{line}");
        }
    });
}

#[test]
fn acquire_with_an_outage_of_the_store_opens_its_breaker() {
    runtime().block_on(async {
        for (line, expected) in [
            (
                "-LOADING Redis is loading the dataset in memory",
                StoreError::Loading,
            ),
            ("-BUSY Redis is busy running a script.", StoreError::Loading),
            (
                "-READONLY You can't write against a read only replica.",
                StoreError::ReadOnly,
            ),
            (
                "-MISCONF Errors writing to the AOF file",
                StoreError::ReadOnly,
            ),
            (
                "-MASTERDOWN Link with MASTER is down",
                StoreError::ClusterDown,
            ),
            (
                "-NOAUTH Authentication required.",
                StoreError::Unauthenticated,
            ),
        ] {
            let server = Scripted::start(line).await;
            let store = server.store().deadline(PATIENT).breaker(3, HOUR, HOUR);
            for index in 0..3 {
                // The failures of different limits add up.
                let limiter = RateLimiter::new(&store, index.to_string(), slow(10));
                assert!(!store.is_broken(), "{line}");
                let error = limiter.try_acquire().await.unwrap_err();
                assert_eq!(failure(&error), expected, "{line}");
            }
            let limiter = RateLimiter::new(&store, "k", slow(10));
            assert!(store.is_broken(), "{line}");
            let charge = limiter.fallback(Fallback::FailOpen).acquire().await;
            assert_eq!(charge.unwrap().source(), Source::Fallback);
            assert_eq!(server.commands(), 3, "{line}");
        }
    });
}

#[test]
fn acquire_of_a_limit_that_fails_alone_pauses_alone() {
    runtime().block_on(async {
        let server = Scripted::start("-upstream failure").await;
        let store = server.store().deadline(PATIENT).breaker(3, HOUR, HOUR);
        let limiter = RateLimiter::new(&store, "k", slow(10)).fallback(Fallback::FailOpen);
        for _ in 0..100 {
            assert_eq!(limiter.acquire().await.unwrap().source(), Source::Fallback);
        }
        let reserved = limiter.reserve(Duration::ZERO).await.unwrap();
        assert_eq!((reserved.cost(), server.commands()), (1, 3));
        let set = LimitSet::new(&store).limit("k", slow(10));
        for expected in [StoreError::Unknown; 3] {
            assert_eq!(set.try_acquire().await.unwrap_err(), expected);
        }
        assert_eq!(
            set.try_acquire().await.unwrap_err(),
            StoreError::BreakerOpen
        );
        // The releases of possible grants count too.
        let semaphore = Semaphore::new(&store, "k", 1);
        until(async || {
            let error = failure(&semaphore.try_acquire().await.unwrap_err());
            assert!([StoreError::Unknown, StoreError::BreakerOpen].contains(&error));
            error == StoreError::BreakerOpen
        })
        .await;
        assert!(server.commands() <= 3 + 3 + 2 * 3, "{}", server.commands());
        // A set of other limits.
        let other = set.limit("j", slow(10)).try_acquire().await;
        assert_eq!(other.unwrap_err(), StoreError::Unknown);
        assert!(!store.is_broken());
    });
}

#[test]
fn acquire_of_a_paused_limit_resumes_when_its_calls_succeed() {
    let server = Server::start();
    runtime().block_on(async {
        let rights = ["ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all"];
        let () = ask(&server, &rights);
        let address = server.address().replace("//", "//app:secret@");
        let store = tollgate_redis::Store::new(&address).unwrap();
        let store = store.deadline(PATIENT);
        let store = store.breaker(2, Duration::from_millis(1), Duration::from_millis(2));
        let limiter = RateLimiter::new(&store, "k", slow(100)).fallback(Fallback::FailOpen);
        let other = RateLimiter::new(&store, "other", slow(100));
        assert_eq!(limiter.acquire().await.unwrap().source(), Source::Store);
        let () = ask(&server, &["ACL", "SETUSER", "app", "resetkeys", "~other"]);
        for _ in 0..10 {
            let charge = limiter.acquire().await.unwrap();
            assert_eq!(charge.source(), Source::Fallback);
            assert_eq!(other.acquire().await.unwrap().source(), Source::Store);
        }
        assert!(!store.is_broken());
        let () = ask(&server, &["ACL", "SETUSER", "app", "~*"]);
        until(async || limiter.acquire().await.unwrap().source() == Source::Store).await;
    });
}

/// Each mistake is the error, also where the fallback admits, and no breaker opens.
#[test]
fn acquire_with_a_mistake_is_an_error_with_every_fallback() {
    on_server(async |server| {
        let store = server.store().breaker(1, HOUR, HOUR);
        let () = ask(server, &["LPUSH", "k", "1"]);
        for fallback in [
            Fallback::FailClosed,
            Fallback::FailOpen,
            Fallback::Local { share: 2 },
        ] {
            let limiter = RateLimiter::new(&store, "k", slow(10)).fallback(fallback);
            for _ in 0..3 {
                let error = limiter.try_acquire().await.unwrap_err();
                assert_eq!(failure(&error), StoreError::WrongType);
                let error = limiter.try_acquire_up_to(3).await.unwrap_err();
                assert_eq!(failure(&error), StoreError::WrongType);
            }
        }
        assert!(!store.is_broken());
    });
}

#[test]
fn acquire_without_a_right_follows_each_fallback() {
    let server = Server::start();
    let app = [
        "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-set",
    ];
    let () = ask(&server, &app);
    runtime().block_on(async {
        let address = server.address().replace("//", "//app:secret@");
        let store = tollgate_redis::Store::new(&address).unwrap();
        let store = store.deadline(PATIENT);
        let limiter = RateLimiter::new(&store, "k", slow(10));
        let error = limiter.try_acquire().await.unwrap_err();
        assert_eq!(failure(&error), StoreError::Forbidden);
        let open = limiter.fallback(Fallback::FailOpen);
        assert_eq!(
            open.acquire_many(7).await.unwrap().source(),
            Source::Fallback
        );
        let local = open.fallback(Fallback::Local { share: 2 });
        assert_eq!(local.try_acquire_up_to(9).await.unwrap().cost(), 5);
        assert!(!store.is_broken());
    });
}
