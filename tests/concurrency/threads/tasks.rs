//! Tasks on a runtime with two threads: some are let in, some give up, and the limit moves.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio_util::sync::CancellationToken;
use tollgate::{ErrorKind, Semaphore};

use super::Gauge;
use crate::support::assert_at_rest;
use crate::support::random::Random;

/// Goes in with random weights, and gives up in random ways.
async fn visitor(semaphore: Arc<Semaphore>, gauge: Arc<Gauge>, seed: u64, weights: u32) {
    let mut random = Random::new(seed);
    for _ in 0..200 {
        let acquire = semaphore.acquire_many(1 + random.below(weights));
        let entered = match random.below(5) {
            0 => {
                tokio::select! {
                    biased;
                    entered = acquire => entered,
                    () = yield_now() => continue,
                }
            }
            1 => {
                let token = CancellationToken::new();
                let cancelling = async {
                    yield_now().await;
                    token.cancel();
                };
                tokio::join!(acquire.cancel_on(&token), cancelling).0
            }
            2 => acquire.timeout(Duration::ZERO).await,
            _ => acquire.await,
        };
        match entered {
            Ok(permit) => {
                gauge.enter(permit.count());
                yield_now().await;
                gauge.exit(permit.count());
            }
            Err(error) => assert!(matches!(
                error.kind(),
                ErrorKind::Cancelled | ErrorKind::TimedOut
            )),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_holds_for_tasks_while_it_moves() {
    let semaphore = Arc::new(Semaphore::new(6));
    let gauge = Arc::new(Gauge::new(6));
    let mut tasks = JoinSet::new();
    for seed in 0..32 {
        // Nobody asks for more than the lowest limit, so nobody is refused.
        tasks.spawn(visitor(Arc::clone(&semaphore), Arc::clone(&gauge), seed, 2));
    }
    for round in 0..200 {
        let (low, high) = (2 + round % 2, 6);
        semaphore.set_permits(low);
        // Admitted: so the debt is paid off.
        let permit = semaphore.acquire().await.unwrap();
        gauge.set_ceiling(low);
        drop(permit);
        yield_now().await;
        gauge.set_ceiling(high);
        semaphore.set_permits(high);
        yield_now().await;
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    gauge.assert_empty();
    assert_at_rest(&semaphore, 6);
}

/// Aborting drops a future at whatever point it has come to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_tasks_lose_nothing() {
    let semaphore = Arc::new(Semaphore::new(2));
    let gauge = Arc::new(Gauge::new(2));
    for _ in 0..100 {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (semaphore, gauge) = (Arc::clone(&semaphore), Arc::clone(&gauge));
                tokio::spawn(async move {
                    let permit = semaphore.acquire_owned().await.unwrap();
                    gauge.pass(permit.count());
                    yield_now().await;
                })
            })
            .collect();
        yield_now().await;
        for task in tasks.iter().step_by(2) {
            task.abort();
        }
        for task in tasks {
            if let Err(error) = task.await {
                assert!(error.is_cancelled());
            }
        }
        assert_at_rest(&semaphore, 2);
    }
    gauge.assert_empty();
}
