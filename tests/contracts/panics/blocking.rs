//! Blocking waits on threads that drive a tokio runtime: with debug assertions they panic at the
//! place of the call, even if they need not wait, and take nothing.

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::task::{block_in_place, spawn_blocking};
use tollgate::{CondvarSemaphore, Semaphore};
#[cfg(debug_assertions)]
use tollgate::{Quota, RateLimiter};

#[cfg(debug_assertions)]
use super::row;
use crate::support::assert_at_rest;

#[cfg(debug_assertions)]
const MESSAGE: &str = "Cannot block the current thread from within a runtime";

pub(super) fn runtimes() -> [Runtime; 2] {
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
