//! A key that holds what a limit does not write.

use tollgate::Algorithm;
use tollgate_redis::{Fallback, RateLimiter, StoreError};

use super::help::{failure, slow};
use crate::support::{ask, on_server};

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
