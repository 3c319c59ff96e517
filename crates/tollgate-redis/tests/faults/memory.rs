//! A server that has no memory left, or throws away what it holds.

use tollgate_redis::{Fallback, RateLimiter, Source, StoreError, Warning};

use super::help::{PATIENT, charged, failure, recovers, slow};
use crate::support::server::Server;
use crate::support::{ask, runtime};

fn set(server: &Server, name: &str, value: &str) {
    ask(server, &["CONFIG", "SET", name, value])
}

/// Until it takes no more, or has thrown away so much that it took twice of what it holds.
fn fill(server: &Server) {
    let mut connection = server.connection();
    for number in 0..400 {
        let set: redis::RedisResult<()> = redis::cmd("SET")
            .arg(format!("filler{number}"))
            .arg("x".repeat(10_000))
            .query(&mut connection);
        if set.is_err() {
            return;
        }
    }
}

#[test]
fn acquire_without_memory_is_a_typed_error_and_falls_back() {
    let server = Server::with(&["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"]);
    runtime().block_on(async {
        let store = server.store();
        let closed = RateLimiter::new(&store, "closed", slow(10));
        let open = RateLimiter::new(&store, "open", slow(10)).fallback(Fallback::FailOpen);
        let local =
            RateLimiter::new(&store, "local", slow(10)).fallback(Fallback::Local { share: 5 });
        recovers(&closed).await;
        fill(&server);
        set(&server, "maxmemory", "1mb");
        let error = closed.acquire().await.unwrap_err();
        assert_eq!(failure(&error), StoreError::OutOfMemory);
        for _ in 0..20 {
            assert_eq!(open.acquire().await.unwrap().source(), Source::Fallback);
        }
        for _ in 0..2 {
            assert_eq!(local.acquire().await.unwrap().source(), Source::Fallback);
        }
        local.try_acquire().await.unwrap_err();
        assert!(!store.is_broken(), "the server answers");
        // Reading needs none.
        assert_eq!(charged(&closed).await, 0);

        set(&server, "maxmemory", "0");
        for limiter in [closed, open, local] {
            let charge = tokio::time::timeout(PATIENT, limiter.acquire()).await;
            assert_eq!(charge.unwrap().unwrap().source(), Source::Store);
        }
    });
}

#[test]
fn acquire_on_an_evicting_server_forgets_and_check_warns() {
    let server = Server::with(&["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru"]);
    runtime().block_on(async {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(10));
        limiter.acquire_many(10).await.unwrap();
        fill(&server);
        set(&server, "maxmemory", "1mb");
        assert_eq!(charged(&limiter).await, 0, "it is forgotten");
        assert!(store.check().await.unwrap().contains(&Warning::Eviction));
        set(&server, "maxmemory-policy", "noeviction");
        assert!(!store.check().await.unwrap().contains(&Warning::Eviction));
    });
}
