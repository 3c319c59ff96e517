//! A server that forgets its scripts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::Algorithm;
use tollgate_redis::RateLimiter;

use super::help::{charged, slow};
use crate::support::runtime;
use crate::support::server::Server;

#[test]
fn acquire_while_scripts_are_flushed_succeeds_and_charges_once() {
    let server = Server::start();
    let (over, flushed) = (Arc::new(AtomicBool::new(false)), server.connection());
    let flusher = std::thread::spawn({
        let (over, mut connection) = (Arc::clone(&over), flushed);
        move || {
            let mut times = 0;
            while !over.load(Ordering::Relaxed) {
                let _: () = redis::cmd("SCRIPT")
                    .arg("FLUSH")
                    .query(&mut connection)
                    .unwrap();
                times += 1;
            }
            times
        }
    });
    runtime().block_on(async {
        let store = server.store();
        let debt = RateLimiter::new(&store, "debt", slow(1000));
        let alone = RateLimiter::new(&store, "alone", slow(1000)).coalesce(false);
        let window =
            RateLimiter::new(&store, "window", slow(1000)).algorithm(Algorithm::SlidingWindow);
        let log = RateLimiter::new(&store, "log", slow(1000)).algorithm(Algorithm::SlidingLog);
        let limiters = [debt, alone, window, log];
        let mut tasks = Vec::new();
        for limiter in &limiters {
            for _ in 0..4 {
                let limiter = limiter.clone();
                tasks.push(tokio::spawn(async move {
                    for _ in 0..50 {
                        limiter.acquire().await.unwrap();
                    }
                }));
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        for limiter in &limiters {
            assert_eq!(charged(limiter).await, 200, "{}", limiter.key());
        }
    });
    over.store(true, Ordering::Relaxed);
    assert!(flusher.join().unwrap() > 0);
}
