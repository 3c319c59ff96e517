//! A server that takes only two clients, and one that knows less than others.

use tollgate_redis::{RateLimiter, StoreError};

use super::help::{charged, crowd, failure, recovers, slow};
use crate::support::runtime;
use crate::support::server::Server;

#[test]
fn acquire_by_ten_thousand_tasks_needs_one_client() {
    let server = Server::with(&["--maxclients", "2"]);
    runtime().block_on(async {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(100_000));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..10_000 {
            let limiter = limiter.clone();
            tasks.spawn(async move { limiter.acquire().await.unwrap() });
        }
        while let Some(charge) = tasks.join_next().await {
            charge.unwrap();
        }
        assert_eq!(charged(&limiter).await, 10_000);
    });
}

#[test]
fn acquire_beyond_maxclients_is_a_typed_error() {
    let server = Server::with(&["--maxclients", "2"]);
    runtime().block_on(async {
        let others = (server.connection(), server.connection());
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(100_000));
        let refused = limiter.acquire().await.unwrap_err();
        assert_eq!(failure(&refused), StoreError::TooManyClients);
        let tally = crowd(&limiter, 10_000).await;
        assert_eq!(tally.errors.len(), 10_000);
        for error in tally.errors {
            let expected = [StoreError::TooManyClients, StoreError::BreakerOpen];
            assert!(expected.contains(&error), "{error:?}");
        }
        let text = store.last_failure().unwrap();
        assert!(text.contains("max number of clients reached"), "{text}");
        drop(others);
        recovers(&limiter).await;
        limiter.charge(1).await.unwrap();
        assert_eq!(charged(&limiter).await, 1);
    });
}

/// As behind a proxy that knows the second version of the protocol only.
#[test]
fn acquire_without_hello_is_admitted() {
    let server = Server::with(&["--rename-command", "HELLO", ""]);
    runtime().block_on(async {
        let limiter = RateLimiter::new(&server.store(), "k", slow(100));
        limiter.acquire().await.unwrap();
        assert_eq!(charged(&limiter).await, 1);
    });
}
