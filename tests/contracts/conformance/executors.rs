//! The checks with tasks of smol's executor, on three threads of its own: no runtime of tokio exists,
//! and without the feature `tokio` nothing of tokio is in the library either.
//!
//! A task runs when its waker is called and not otherwise, so a lost wake hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use smol::{Executor, Task};
use tollgate::{ErrorKind, Throttle, TryThrottle};

use super::subject::{PermitOf, Subject, assert_at_rest, fill, held};
use crate::support::{kind, yield_now};

/// Runs `main` on this thread, and the tasks that it spawns on three others.
fn on_smol(main: impl AsyncFnOnce(&Executor<'static>)) {
    let executor = Executor::new();
    let (stop, stopped) = smol::channel::bounded::<()>(1);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| smol::block_on(executor.run(stopped.recv())));
        }
        // Dropped in a panic as well, so that the threads end.
        let _stop = stop;
        smol::block_on(main(&executor));
    });
}

const LIMIT: usize = 3;

pub(crate) fn tasks_never_exceed_the_limit<S: Subject>() {
    on_smol(async |executor| {
        let throttle = S::with_limit(LIMIT);
        let inside = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<Task<()>> = (0..60)
            .map(|_| {
                let (throttle, inside) = (throttle.clone(), Arc::clone(&inside));
                executor.spawn(async move {
                    let permit = throttle.enter().await.unwrap();
                    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now <= LIMIT, "too many are inside");
                    yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    throttle.rollback(permit);
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_at_rest::<S>(&throttle, LIMIT);
    });
}

/// Enters, and leaves at once.
async fn pass(throttle: impl Throttle) {
    let permit = throttle.enter().await.expect("nobody closes it");
    throttle.rollback(permit);
}

/// Half of the waiters are cancelled while the permits come back.
pub(crate) fn tasks_that_are_cancelled_lose_nothing<S: Subject>() {
    on_smol(async |executor| {
        for _ in 0..10 {
            let throttle = S::with_limit(LIMIT);
            let permits: Vec<PermitOf<S>> = fill::<S>(&throttle, LIMIT);
            let waiters = (0..20).map(|_| executor.spawn(pass(throttle.clone())));
            let waiters: Vec<Task<()>> = waiters.collect();
            let leaves = throttle.clone();
            let leave = executor.spawn(async move {
                for permit in permits {
                    leaves.rollback(permit);
                    yield_now().await;
                }
            });
            for (number, waiter) in waiters.into_iter().enumerate() {
                match number % 2 {
                    0 => drop(waiter.cancel().await),
                    _ => waiter.await,
                }
            }
            leave.await;
            assert_at_rest::<S>(&throttle, LIMIT);
        }
    });
}

pub(crate) fn a_deadline_ends_the_wait_of_a_task<S: Subject>() {
    on_smol(async |executor| {
        let (throttle, permit) = held::<S>();
        let late = executor.spawn(throttle.enter().timeout(Duration::from_millis(1)));
        assert_eq!(kind(late.await), ErrorKind::TimedOut);
        throttle.rollback(permit);
        assert_at_rest::<S>(&throttle, 1);
    });
}

pub(crate) fn closing_ends_the_waits_of_tasks<S: Subject>() {
    if !S::GUARANTEES.closes {
        return;
    }
    on_smol(async |executor| {
        let throttle = S::with_limit(1);
        let permit = throttle.try_enter().unwrap();
        let waiters: Vec<_> = (0..10).map(|_| executor.spawn(throttle.enter())).collect();
        yield_now().await;
        S::close(&throttle);
        for waiter in waiters {
            assert_eq!(kind(waiter.await), ErrorKind::Closed);
        }
        throttle.rollback(permit);
    });
}

#[cfg(feature = "tokio")]
pub(crate) fn a_token_ends_the_wait_of_a_task<S: Subject>() {
    on_smol(async |executor| {
        let (throttle, permit) = held::<S>();
        let token = tokio_util::sync::CancellationToken::new();
        let waiter = executor.spawn(throttle.enter().cancel_on(token.clone()));
        yield_now().await;
        token.cancel();
        assert_eq!(kind(waiter.await), ErrorKind::Cancelled);
        throttle.rollback(permit);
        assert_at_rest::<S>(&throttle, 1);
    });
}
