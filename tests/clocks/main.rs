//! Clocks: what a limiter tells the time by, and what wakes those that wait for it.
//!
//! Exact on manual and on tokio's paused time. On the time of the machine a test only says that a wait
//! ends, and in what order, never when.

mod chosen;
mod manual;
#[path = "../support/mod.rs"]
mod support;
mod system;
mod timers;
#[cfg(feature = "tokio")]
mod tokio_runtimes;
#[cfg(feature = "tokio")]
mod tokio_time;

use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use tollgate::{Charge, RateLimiter};

use self::support::ends;

/// A second.
const SECOND: Duration = Duration::from_secs(1);

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits until so many are queued.
async fn until_queued(limiter: &RateLimiter, waiting: usize) {
    until(|| limiter.snapshot().waiting == waiting).await;
}

async fn until(comes: impl Fn() -> bool) {
    while !comes() {
        thread::yield_now();
        support::yield_now().await;
    }
}

/// So many waits, one after the other.
async fn acquire_times(limiter: &RateLimiter, times: usize) -> Vec<Charge> {
    let mut charges = Vec::new();
    for _ in 0..times {
        charges.push(limiter.acquire().await.expect("nobody closes it"));
    }
    charges
}

/// All of several in one.
fn flat(each: impl IntoIterator<Item = Vec<Charge>>) -> Vec<Charge> {
    each.into_iter().flatten().collect()
}

/// With a burst of 1, charges are never closer than this.
#[track_caller]
fn assert_apart(charges: Vec<Charge>, by: Duration) {
    let mut ticks: Vec<_> = charges.iter().map(Charge::at).collect();
    ticks.sort();
    for pair in ticks.windows(2) {
        // The promise is exact to one nanosecond, the resolution of the clock.
        let apart = pair[1].saturating_since(pair[0]) + Duration::from_nanos(1);
        assert!(apart >= by, "{pair:?}");
    }
}
