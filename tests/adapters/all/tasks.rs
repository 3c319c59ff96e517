//! Compositions that own their parts, in tasks of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate::{Semaphore, all};

use crate::support::assert_at_rest;

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
