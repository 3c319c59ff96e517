//! A key that holds what a limit does not write.

use tollgate::Algorithm;
use tollgate_redis::{Fallback, RateLimiter, StoreError};

use super::help::{failure, slow};
use crate::support::{algorithms, ask, on_server};

#[test]
fn acquire_of_a_key_of_another_type_is_a_typed_error() {
    on_server(async |server| {
        let store = server.store();
        let algorithms = [
            Algorithm::Gcra,
            Algorithm::FixedWindow,
            Algorithm::SlidingWindow,
            Algorithm::SlidingLog,
        ];
        for words in [["LPUSH", "k", "1"], ["SET", "k", "something"]] {
            let () = ask(server, &["DEL", "k"]);
            let () = ask(server, &words);
            for algorithm in algorithms {
                // A mistake is nothing that a policy is for.
                let limiter = RateLimiter::new(&store, "k", slow(5))
                    .algorithm(algorithm)
                    .fallback(Fallback::FailOpen);
                let refused = limiter.acquire().await.unwrap_err();
                assert_eq!(failure(&refused), StoreError::WrongType, "{algorithm}");
                assert_eq!(limiter.peek(1).await, Err(StoreError::WrongType));
            }
            assert!(ask::<bool>(server, &["EXISTS", "k"]));
        }
        assert!(!store.is_broken());
    });
}

#[test]
fn acquire_of_a_number_that_no_script_writes_is_a_typed_error() {
    // From the first length that is beyond 2^53.
    let lengths = [16, 17, 18, 19, 20, 400];
    on_server(async |server| {
        let store = server.store();
        for algorithm in algorithms() {
            let limiter = RateLimiter::new(&store, "k", slow(6)).algorithm(algorithm);
            let () = ask(server, &["DEL", "k"]);
            limiter.acquire().await.unwrap();
            let is_log = algorithm == Algorithm::SlidingLog;
            let read = || match is_log {
                true => ask::<Vec<String>>(server, &["ZRANGE", "k", "-1", "-1"]).remove(0),
                false => ask(server, &["GET", "k"]),
            };
            let value: String = read();
            let numbers = value.split(':').enumerate();
            let numbers = numbers.filter(|(_, it)| it.parse::<u64>().is_ok());
            for (index, length) in numbers.flat_map(|(at, _)| lengths.map(|it| (at, it))) {
                let huge = "9".repeat(length);
                let mut numbers: Vec<_> = value.split(':').collect();
                numbers[index] = &huge;
                let corrupt = numbers.join(":");
                let () = ask(server, &["DEL", "k"]);
                match is_log {
                    true => ask::<()>(server, &["ZADD", "k", "+inf", &corrupt]),
                    false => ask::<()>(server, &["SET", "k", &corrupt]),
                }
                // What decides the common case, and what decides all others.
                for n in [1, 2] {
                    let refused = limiter.try_acquire_many(n).await;
                    let refused = refused.map_err(|error| failure(&error));
                    assert_eq!(refused.unwrap_err(), StoreError::WrongType, "{corrupt}");
                }
                assert_eq!(limiter.peek(1).await, Err(StoreError::WrongType));
                assert_eq!(read(), corrupt, "it stays as it is");
            }
        }
    });
}
