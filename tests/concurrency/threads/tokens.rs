//! Tokens are cancelled and times run out while threads wait.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tollgate::{ErrorKind, Semaphore};

use super::Gauge;
use crate::support::assert_at_rest;
use crate::support::random::{Random, on_threads};

const LIMIT: u32 = 3;
const THREADS: usize = 4;

#[test]
fn waits_that_are_cancelled_lose_nothing() {
    let semaphore = Semaphore::new(LIMIT as usize);
    let gauge = Gauge::new(LIMIT as usize);
    let tokens: [Mutex<CancellationToken>; THREADS] = Default::default();
    let running = AtomicUsize::new(THREADS);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for (seed, slot) in tokens.iter().enumerate() {
            let (semaphore, gauge, running) = (&semaphore, &gauge, &running);
            scope.spawn(move || {
                let mut random = Random::new(seed as u64);
                for _ in 0..1000 {
                    let token = CancellationToken::new();
                    *slot.lock().unwrap() = token.clone();
                    let acquire = semaphore.acquire_many(1 + random.below(LIMIT));
                    match acquire.cancel_on(&token).wait() {
                        Ok(permit) => gauge.pass(permit.count()),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
                    }
                }
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while running.load(Ordering::Relaxed) > 0 {
                for slot in &tokens {
                    let token = slot.lock().unwrap().clone();
                    token.cancel();
                    thread::yield_now();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    });
    assert!(done.into_inner());
    gauge.assert_empty();
    assert_at_rest(&semaphore, LIMIT as usize);
}

#[test]
fn waits_that_time_out_lose_nothing() {
    let semaphore = Semaphore::new(LIMIT as usize);
    let gauge = Gauge::new(LIMIT as usize);
    on_threads(THREADS as u64, |random| {
        for _ in 0..500 {
            let acquire = semaphore.acquire_many(1 + random.below(LIMIT));
            let duration = Duration::from_micros(u64::from(random.below(50)));
            match acquire.timeout(duration).wait() {
                Ok(permit) => gauge.pass(permit.count()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
            }
        }
    });
    gauge.assert_empty();
    assert_at_rest(&semaphore, LIMIT as usize);
}
