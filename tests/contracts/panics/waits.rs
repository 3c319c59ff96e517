//! Waits that panic: futures that are polled again after they were ready, each in its own state, and waits
//! of threads that drive a tokio runtime.
//!
//! `a_wait_that_is_polled_again_panics_and_takes_nothing` in `conformance/wakers.rs` tests the first for
//! every throttle, after a wait was let in at once, was let in later, or was closed.

use std::time::Duration;

use tollgate::{Clock, Gate, Keyed, Quota, RateLimiter, Semaphore};

use super::row;
use crate::support::{Waiter, assert_at_rest};

const AGAIN: &str = "polled again after it was ready";
const SECOND: Duration = Duration::from_secs(1);

/// Polls until it is ready, and then once more.
#[track_caller]
fn polled_again<F: Future>(future: F) {
    let mut waiter = Waiter::new(future);
    drop(waiter.output());
    for _ in 0..2 {
        row(AGAIN, || waiter.poll().is_ready());
    }
}

#[test]
fn a_future_of_a_semaphore_that_is_polled_again() {
    let semaphore = Semaphore::new(1).max_waiters(0);
    polled_again(semaphore.acquire_many(0));
    polled_again(semaphore.acquire_many(2));
    polled_again(semaphore.acquire().timeout(SECOND));
    polled_again(semaphore.wait_idle().timeout(SECOND));
    let held = semaphore.try_acquire().unwrap();
    polled_again(semaphore.acquire());
    polled_again(semaphore.acquire().timeout(Duration::ZERO));
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_future_of_a_limiter_a_key_or_a_gate_that_is_polled_again() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(10))
        .max_waiters(1)
        .clock(&clock);
    polled_again(limiter.acquire_many(2));
    polled_again(limiter.acquire());
    polled_again(limiter.acquire_many(0));
    clock.advance(Duration::from_millis(100));
    polled_again(limiter.reserve().unwrap());
    let mut reserved = Waiter::parked(limiter.reserve().unwrap());
    polled_again(limiter.acquire());
    limiter.close();
    assert!(reserved.output().is_err());
    row(AGAIN, || reserved.poll().is_ready());
    polled_again(
        Keyed::<u8, _>::rate_limiters(Quota::per_second(1))
            .key(&1)
            .acquire(),
    );
    polled_again(Gate::new().acquire());
    polled_again(Keyed::<u8, _>::gates().key(&1).acquire());
    polled_again(Gate::new().before(&limiter).acquire());
    polled_again(Gate::new().before(&Semaphore::new(1)).acquire());
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::*;

    #[test]
    fn a_future_with_a_token_that_is_polled_again() {
        let semaphore = Arc::new(Semaphore::new(1));
        let token = CancellationToken::new();
        let shared = || Arc::clone(&semaphore);
        polled_again(semaphore.acquire().cancel_on(&token));
        polled_again(shared().acquire_owned().cancel_on(token.clone()));
        polled_again(semaphore.wait_idle().cancel_on(&token));
        token.cancel();
        polled_again(semaphore.acquire().cancel_on(&token));
        polled_again(semaphore.acquire().cancel_on(&token).timeout(SECOND));
        polled_again(semaphore.acquire().timeout(SECOND).cancel_on(&token));
        assert_at_rest(&semaphore, 1);
    }

    /// The message is tokio's own; the test is that the queue keeps track of the place.
    #[test]
    fn a_timeout_that_has_to_wait_inside_a_runtime_without_a_timer() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let semaphore = Semaphore::new(1);
        let held = semaphore.try_acquire().unwrap();
        row("timers are disabled", || {
            runtime.block_on(semaphore.acquire().timeout(SECOND))
        });
        assert_eq!(semaphore.snapshot().waiting, 0);
        drop(held);
        assert_at_rest(&semaphore, 1);
    }
}

/// Blocking waits on threads that drive a tokio runtime: with debug assertions they panic at
/// the call, even if they need not wait, and take nothing.
#[cfg(feature = "tokio")]
mod blocking {
    use std::sync::Arc;

    use tokio::runtime::{Builder, Runtime};
    use tokio::task::{block_in_place, spawn_blocking};
    use tollgate::CondvarSemaphore;

    use super::*;

    #[cfg(debug_assertions)]
    const MESSAGE: &str = "Cannot block the current thread from within a runtime";

    fn runtimes() -> [Runtime; 2] {
        let many = Builder::new_multi_thread().worker_threads(1).build();
        [
            Builder::new_current_thread().build().unwrap(),
            many.unwrap(),
        ]
    }

    #[cfg(debug_assertions)]
    #[test]
    fn wait_inside_a_runtime_panics_and_takes_nothing() {
        let semaphore = Arc::new(Semaphore::new(1));
        let limiter = RateLimiter::new(Quota::per_hour(1));
        let condvar = CondvarSemaphore::new(1);
        for runtime in runtimes() {
            runtime.block_on(async {
                row(MESSAGE, || semaphore.acquire().wait());
                row(MESSAGE, || limiter.acquire().wait());
                row(MESSAGE, || condvar.acquire().wait());
            });
            let shared = Arc::clone(&semaphore);
            let task = async move { row(MESSAGE, || shared.acquire().wait()) };
            runtime.block_on(runtime.spawn(task)).unwrap();
        }
        assert_at_rest(&semaphore, 1);
        assert_eq!(
            (limiter.snapshot().available, condvar.snapshot().available),
            (1, 1)
        );
    }

    #[test]
    fn wait_where_blocking_is_allowed_waits() {
        let semaphore = Arc::new(Semaphore::new(1));
        let [_, many] = runtimes();
        let shared = Arc::clone(&semaphore);
        many.block_on(async {
            let inner = Arc::clone(&shared);
            let spawned = spawn_blocking(move || inner.acquire_owned().wait().map(drop));
            spawned.await.unwrap().unwrap();
            let in_task = tokio::spawn(async move {
                block_in_place(|| drop(shared.acquire().wait().unwrap()));
            });
            in_task.await.unwrap();
        });
        let _entered = many.enter();
        drop(semaphore.acquire().wait().unwrap());
        drop(CondvarSemaphore::new(1).acquire().wait().unwrap());
        assert_at_rest(&semaphore, 1);
    }
}
