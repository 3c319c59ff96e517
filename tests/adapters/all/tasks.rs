//! Compositions that own their parts, in tasks and threads of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tollgate::{ErrorKind, Semaphore, all};

use crate::support::{assert_at_rest, kind};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_never_exceed_any_of_the_limits() {
    const TEAMS: usize = 2;
    let teams: [_; TEAMS] = std::array::from_fn(|_| Arc::new(Semaphore::new(3)));
    let everyone = Arc::new(Semaphore::new(4));
    let counts: Arc<[AtomicUsize; TEAMS + 1]> = Arc::default();
    let tasks: Vec<_> = (0..40)
        .map(|number| {
            let team = number % TEAMS;
            let throttle = all((Arc::clone(&teams[team]), Arc::clone(&everyone)));
            let counts = Arc::clone(&counts);
            tokio::spawn(async move {
                for _ in 0..20 {
                    let permits = throttle.acquire().await.unwrap();
                    for (count, limit) in [(team, 3), (TEAMS, 4)] {
                        let inside = counts[count].fetch_add(1, Ordering::SeqCst) + 1;
                        assert!(inside <= limit, "too many are inside");
                    }
                    tokio::task::yield_now().await;
                    for count in [team, TEAMS] {
                        counts[count].fetch_sub(1, Ordering::SeqCst);
                    }
                    drop(permits);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for team in &teams {
        assert_at_rest(team, 3);
    }
    assert_at_rest(&everyone, 4);
}

#[tokio::test]
async fn a_task_that_is_aborted_gives_everything_back() {
    let (a, b) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(0)));
    let throttle = all((Arc::clone(&a), Arc::clone(&b)));
    let waiting = tokio::spawn(throttle.acquire());
    while b.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(kind(a.try_acquire()), ErrorKind::NoPermits);
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert_at_rest(&a, 1);
    assert_eq!(b.waiting(), 0);
}

#[test]
fn threads_can_wait_for_it() {
    let (a, b) = (Semaphore::new(2), Semaphore::new(1));
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let permits = all((&a, &b)).acquire().wait().unwrap();
                    assert_eq!(
                        inside.fetch_add(1, Ordering::SeqCst),
                        0,
                        "too many are inside"
                    );
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(permits);
                }
            });
        }
    });
    assert_at_rest(&a, 2);
    assert_at_rest(&b, 1);
}
