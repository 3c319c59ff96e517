//! Checks with tasks of smol's executor, on three threads of its own: there is no tokio runtime, and
//! without the feature `tokio` the library contains nothing of tokio either.
//!
//! A task runs only when its waker is called, so a lost wake shows as a check that does not end, which
//! fails after a minute.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use smol::{Executor, Task};
use tollgate::{ErrorKind, Throttle};

use super::subject::{Subject, assert_at_rest, fill};
use crate::support::{ends, kind, yield_now};

/// Runs `main` on a thread of its own, and the tasks that it spawns on three others.
fn on_smol(
    subject: &Subject,
    main: impl AsyncFnOnce(&Executor<'static>, Subject) + Send + 'static,
) {
    let subject = subject.clone();
    ends(move || {
        let executor = Executor::new();
        let (stop, stopped) = smol::channel::bounded::<()>(1);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| smol::block_on(executor.run(stopped.recv())));
            }
            // A panic drops it too, so that the threads end.
            let _stop = stop;
            smol::block_on(main(&executor, subject));
        });
    });
}

/// Spawns tasks, and returns them when each has been polled and has to wait.
async fn parked<F>(
    executor: &Executor<'static>,
    count: usize,
    task: impl Fn() -> F,
) -> Vec<Task<F::Output>>
where
    F: Future<Output: Send> + Send + 'static,
{
    let (parks, parked) = smol::channel::bounded(count);
    let spawn = |_| {
        let (mut task, mut parks) = (Box::pin(task()), Some(parks.clone()));
        executor.spawn(poll_fn(move |cx| {
            let polled = task.as_mut().poll(cx);
            if let Some(parks) = parks.take() {
                parks.try_send(polled.is_pending()).unwrap();
            }
            polled
        }))
    };
    let tasks = (0..count).map(spawn).collect();
    for _ in 0..count {
        assert!(parked.recv().await.unwrap(), "it did not have to wait");
    }
    tasks
}

const LIMIT: usize = 3;

pub(crate) fn enter_by_many_tasks_never_exceeds_the_limit(subject: &Subject) {
    on_smol(subject, async |executor, subject| {
        let throttle = subject.with_limit(LIMIT);
        let permits = fill(&throttle, LIMIT);
        let inside = Arc::new(AtomicUsize::new(0));
        let tasks = parked(executor, 60, || {
            let (throttle, inside) = (throttle.clone(), Arc::clone(&inside));
            async move {
                let permit = throttle.enter().await.unwrap();
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                assert!(now <= LIMIT, "too many are inside");
                yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                throttle.rollback(permit);
            }
        });
        let tasks = tasks.await;
        throttle.rollback_all(permits);
        for task in tasks {
            task.await;
        }
        assert_at_rest(&throttle, LIMIT);
    });
}

/// Enters, and leaves at once.
async fn pass(throttle: impl Throttle) {
    let permit = throttle.enter().await.expect("nobody closes it");
    throttle.rollback(permit);
}

/// Half of the waiters are cancelled while the permits come back.
pub(crate) fn enter_cancelled_with_its_task_loses_nothing(subject: &Subject) {
    on_smol(subject, async |executor, subject| {
        for _ in 0..10 {
            let throttle = subject.with_limit(LIMIT);
            let permits = fill(&throttle, LIMIT);
            let waiters = parked(executor, 20, || pass(throttle.clone())).await;
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
            assert_at_rest(&throttle, LIMIT);
        }
    });
}

pub(crate) fn timeout_in_a_task_ends_its_wait(subject: &Subject) {
    on_smol(subject, async |executor, subject| {
        let (throttle, permit) = subject.held();
        let late = executor.spawn(throttle.enter().timeout(Duration::from_millis(1)));
        assert_eq!(kind(late.await), ErrorKind::TimedOut);
        throttle.rollback(permit);
        assert_at_rest(&throttle, 1);
    });
}

pub(crate) fn close_while_tasks_wait_ends_their_waits(subject: &Subject) {
    on_smol(subject, async |executor, subject| {
        let (throttle, permit) = subject.held();
        let waiters = parked(executor, 10, || throttle.enter()).await;
        throttle.close();
        for waiter in waiters {
            assert_eq!(kind(waiter.await), ErrorKind::Closed);
        }
        throttle.rollback(permit);
    });
}

#[cfg(feature = "tokio")]
pub(crate) fn cancel_on_while_tasks_wait_ends_their_waits(subject: &Subject) {
    on_smol(subject, async |executor, subject| {
        let (throttle, permit) = subject.held();
        let token = tokio_util::sync::CancellationToken::new();
        let wait = || throttle.enter().cancel_on(token.clone());
        let waiters = parked(executor, 10, wait).await;
        token.cancel();
        for waiter in waiters {
            assert_eq!(kind(waiter.await), ErrorKind::Cancelled);
        }
        throttle.rollback(permit);
        assert_at_rest(&throttle, 1);
    });
}
