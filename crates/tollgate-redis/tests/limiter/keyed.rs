//! The limiters of many keys.

use crate::support::{on_server, slow, until};
use tollgate_redis::{Keyed, RateLimiter, Source};

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
        // Of another key nothing is known, and it is one of its own.
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
        let users = Keyed::new(RateLimiter::new(&server.store(), "k", slow(1)), 3);
        let first = users.key("0");
        first.acquire().await.unwrap();
        let waits = tokio::spawn(first.acquire());
        until(async || first.waiting() == 1).await;
        for key in 1..100 {
            users.key(&key.to_string()).acquire().await.unwrap();
        }
        assert_eq!(users.len(), 3);
        assert_eq!(users.key("0").waiting(), 0, "another one");
        first.set_quota(slow(1000));
        waits.await.unwrap().unwrap();
    });
}

#[test]
#[should_panic(expected = "a map of at most 0 keys")]
fn new_with_zero_keys_panics() {
    on_server(async |server| {
        let _ = Keyed::new(RateLimiter::new(&server.store(), "k", slow(1)), 0);
    });
}
