//! A backend slows down to a quarter of its capacity. A fixed limit that fitted before now keeps its queue
//! long; an adaptive limit follows, and its calls take as long as before.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate::{Clock, Semaphore, TryThrottle};
use tollgate_adaptive::{AdaptiveSemaphore, Gradient, Shared};

const MS: Duration = Duration::from_millis(1);

/// The time that a worker of the backend takes for a call. The backend has 40 workers, and later 10.
const WORK: Duration = Duration::from_millis(20);

/// A database with this number of workers, and an unbounded queue in front of them.
struct Backend(Semaphore);

impl Backend {
    async fn call(&self) {
        let _worker = self.0.acquire().await.expect("the backend is never closed");
        sleep(WORK).await;
    }
}

/// The calls of one second.
struct Second {
    answered: usize,
    p99: Duration,
}

/// Makes 3000 calls per second behind a limit, and rejects those for which there is no permit.
async fn second(backend: &Arc<Backend>, limit: impl TryThrottle<Permit: Send + 'static>) -> Second {
    let mut calls = JoinSet::new();
    for call in 0..3000 {
        if call % 3 == 0 {
            sleep(MS).await;
        }
        if let Ok(permit) = limit.try_enter() {
            let backend = Arc::clone(backend);
            calls.spawn(async move {
                let start = Instant::now();
                backend.call().await;
                drop(permit);
                start.elapsed()
            });
        }
    }
    let mut latencies = calls.join_all().await;
    latencies.sort_unstable();
    Second {
        answered: latencies.len(),
        p99: latencies[latencies.len() * 99 / 100],
    }
}

/// Returns the last of five seconds with 40 workers, and the last of six with 10. In the fifth second, the
/// adaptive limit measures the latency without a queue, for which it halves itself.
async fn before_and_after(limit: impl TryThrottle<Permit: Send + 'static>) -> [Second; 2] {
    let backend = Arc::new(Backend(Semaphore::new(40)));
    for _ in 0..4 {
        second(&backend, limit.clone()).await;
    }
    let before = second(&backend, limit.clone()).await;
    backend.0.set_permits(10);
    for _ in 0..5 {
        second(&backend, limit.clone()).await;
    }
    [before, second(&backend, limit).await]
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let fixed = before_and_after(Arc::new(Semaphore::new(80))).await;
    let limit = Shared::from(AdaptiveSemaphore::new(Gradient::default()).clock(Clock::tokio()));
    let adaptive = before_and_after(limit.clone()).await;

    // Both keep the backend busy: 2000 calls per second at first, and then 500.
    for (second, capacity) in [&fixed, &adaptive]
        .into_iter()
        .flatten()
        .zip([2000, 500].repeat(2))
    {
        assert!(
            second.answered >= capacity * 9 / 10,
            "{} of {capacity}",
            second.answered
        );
    }
    // With the fixed limit, a call now waits for up to 80 others in the queue of the backend.
    assert!(fixed[1].p99 >= 6 * WORK, "{:?}", fixed[1].p99);
    assert!(
        adaptive.iter().all(|second| second.p99 <= 3 * WORK),
        "{:?}",
        adaptive[1].p99
    );
    let [before, after] = adaptive.map(|second| second.p99);
    println!(
        "p99 {before:?}, then {after:?} at {}; fixed {:?}",
        limit.snapshot().permits.limit,
        fixed[1].p99
    );
}
