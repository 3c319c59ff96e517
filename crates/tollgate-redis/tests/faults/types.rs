//! A key that holds what a limit does not write.

use tollgate::Algorithm;
use tollgate_redis::{Fallback, RateLimiter, StoreError};

use super::help::{PATIENT, failure, slow};
use crate::support::on_server;

#[test]
fn acquire_of_a_key_of_another_type_is_a_typed_error() {
    on_server(async |server| {
        let store = server.store().deadline(PATIENT);
        let algorithms = [
            Algorithm::Gcra,
            Algorithm::FixedWindow,
            Algorithm::SlidingWindow,
            Algorithm::SlidingLog,
        ];
        for words in [["LPUSH", "k", "1"], ["SET", "k", "something"]] {
            let mut connection = server.connection();
            let _: () = redis::cmd("DEL").arg("k").query(&mut connection).unwrap();
            let _: redis::Value = redis::cmd(words[0])
                .arg(&words[1..])
                .query(&mut connection)
                .unwrap();
            for algorithm in algorithms {
                // A mistake is nothing that a policy is for.
                let limiter = RateLimiter::new(&store, "k", slow(5))
                    .algorithm(algorithm)
                    .fallback(Fallback::FailOpen);
                let refused = limiter.acquire().await.unwrap_err();
                assert_eq!(failure(&refused), StoreError::WrongType, "{algorithm}");
                assert_eq!(limiter.peek(1).await, Err(StoreError::WrongType));
            }
            let exists: bool = redis::cmd("EXISTS")
                .arg("k")
                .query(&mut connection)
                .unwrap();
            assert!(exists);
        }
        assert!(!store.is_broken());
    });
}
