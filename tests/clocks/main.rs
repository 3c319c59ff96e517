//! Clocks: the time source of a limiter, and the timers that wake its waiters.
//!
//! Tests are exact on manual time and on tokio's paused time. On system time a test only checks that a
//! wait ends, and the order, never the time.

mod chosen;
#[cfg(feature = "tokio")]
mod fair_runtimes;
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
use tollgate::RateLimiter;
use tollgate::rate::Charge;

use self::support::ends;

/// A second.
const SECOND: Duration = Duration::from_secs(1);

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits until this many callers are queued.
async fn until_queued(limiter: &RateLimiter, waiting: usize) {
    until(|| limiter.snapshot().waiting == waiting).await;
}

async fn until(comes: impl Fn() -> bool) {
    while !comes() {
        thread::yield_now();
        support::yield_now().await;
    }
}

/// Waits this many times in sequence.
async fn acquire_times(limiter: &RateLimiter, times: usize) -> Vec<Charge> {
    let mut charges = Vec::new();
    for _ in 0..times {
        charges.push(limiter.acquire().await.expect("nobody closes it"));
    }
    charges
}

/// Flattens several lists.
fn flat(each: impl IntoIterator<Item = Vec<Charge>>) -> Vec<Charge> {
    each.into_iter().flatten().collect()
}

/// Asserts that charges are never closer than this, for a burst of 1.
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
