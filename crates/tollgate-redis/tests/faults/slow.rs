//! A server that holds still.

use tollgate_redis::RateLimiter;

use super::help::{DEADLINE, charged, crowd, limiter, recovers, slow, until};
use crate::support::on_server;

#[test]
fn acquire_on_a_stopped_server_ends_and_leaves_no_waiters() {
    on_server(async |server| {
        let store = server.store().deadline(DEADLINE);
        let limiter = limiter(&store, 100_000).await;
        server.stop();
        for _ in 0..3 {
            let tally = crowd(&limiter, 3000).await;
            assert_eq!(tally.errors.len(), 3000);
            assert_eq!(limiter.waiting(), 0);
        }
        server.go_on();
        recovers(&limiter).await;
        until(async || limiter.acquire().await.is_ok()).await;
    });
}

#[test]
fn acquire_that_a_stopped_server_executes_later_was_perhaps_charged() {
    on_server(async |server| {
        let store = server.store().deadline(DEADLINE);
        let limiter = RateLimiter::new(&store, "k", slow(1000)).coalesce(false);
        recovers(&limiter).await;
        server.stop();
        let tally = crowd(&limiter, 50).await;
        let perhaps = tally.perhaps_charged();
        assert_eq!(tally.admitted(), 0);
        assert!(perhaps > 0, "{:?}", tally.errors);
        server.go_on();
        let direct = RateLimiter::new(&server.store(), "k", slow(1000));
        until(async || charged(&direct).await > 0).await;
        recovers(&limiter).await;
        assert!(charged(&direct).await <= perhaps);
    });
}
