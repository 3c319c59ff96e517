//! Inside a runtime it is tokio's time, so what is said of it can be compared exactly.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore, all};

use crate::support::{assert_at_rest, kind};

const SHORT: Duration = Duration::from_millis(250);

#[tokio::test(start_paused = true)]
async fn time_runs_from_the_first_poll_that_waits() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let wait = semaphore.acquire().timeout(SHORT);
    sleep(4 * SHORT).await;
    let begun = Instant::now();
    assert_eq!(kind(wait.await), ErrorKind::TimedOut);
    assert_eq!(begun.elapsed(), SHORT);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn the_longest_duration_waits_as_long_as_it_takes() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    let year = Duration::from_secs(365 * 86_400);
    let begun = Instant::now();
    let releasing = async {
        sleep(year).await;
        drop(held);
    };
    let waiting = semaphore.acquire().timeout(Duration::MAX);
    let (permit, ()) = tokio::join!(waiting, releasing);
    assert_eq!(begun.elapsed(), year);
    drop(permit.unwrap());
    assert_at_rest(&semaphore, 1);
}

#[tokio::test(start_paused = true)]
async fn a_later_part_refuses_what_will_not_fit_into_the_time_left() {
    let semaphore = Arc::new(Semaphore::new(1));
    let limiter = RateLimiter::new(Quota::per_second(1)).clock(Clock::tokio());
    limiter.try_acquire().unwrap();
    let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    tokio::spawn(async move {
        sleep(SHORT).await;
        drop(held);
    });
    let begun = Instant::now();
    let both = all((&semaphore, &limiter));
    let refused = both.acquire().timeout(3 * SHORT).await.unwrap_err();
    assert_eq!(begun.elapsed(), SHORT);
    assert_eq!(refused.kind(), ErrorKind::TimedOut);
    assert_eq!(refused.retry_after(), Some(3 * SHORT));
    assert_eq!(refused.part(), Some(1));
    assert_at_rest(&semaphore, 1);
}
