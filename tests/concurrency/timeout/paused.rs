//! Inside a runtime it is tokio's time, so what is said of it can be compared exactly.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, advance, sleep};
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore, all};

use crate::support::{Waiter, assert_at_rest, kind};

const SHORT: Duration = Duration::from_millis(250);

#[tokio::test(start_paused = true)]
async fn it_ends_after_exactly_its_duration() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    for milliseconds in [1, 2, 999, 60_000, 86_400_000] {
        let begun = Instant::now();
        let duration = Duration::from_millis(milliseconds);
        let result = semaphore.acquire().timeout(duration).await;
        assert_eq!(kind(result), ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), duration);
        assert_eq!(semaphore.snapshot().waiting, 0);
    }
    drop(held);
    assert_at_rest(&semaphore, 1);
}

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
async fn polling_again_does_not_restart_the_time() {
    let semaphore = Semaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    let begun = Instant::now();
    let mut waiter = Waiter::parked(semaphore.acquire().timeout(SHORT));
    for _ in 0..5 {
        advance(SHORT / 10).await;
        assert!(waiter.is_pending());
    }
    let result = std::future::poll_fn(|context| waiter.poll_with(context.waker())).await;
    assert_eq!(kind(result), ErrorKind::TimedOut);
    assert_eq!(begun.elapsed(), SHORT);
}

#[tokio::test(start_paused = true)]
async fn a_grant_in_time_is_received_when_it_is_made() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    let begun = Instant::now();
    tokio::spawn(async move {
        sleep(SHORT).await;
        drop(held);
    });
    let permit = semaphore.acquire().timeout(2 * SHORT).await.unwrap();
    assert_eq!(begun.elapsed(), SHORT);
    drop(permit);
    assert_at_rest(&semaphore, 1);
}

#[tokio::test(start_paused = true)]
async fn waiters_time_out_each_at_its_own_time() {
    let semaphore = Semaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    let begun = Instant::now();
    let waits = [5_u64, 1, 4, 2, 3].map(|factor| {
        let wait = semaphore.acquire().timeout(Duration::from_millis(factor));
        async move { (kind(wait.await), begun.elapsed()) }
    });
    let ends = futures::future::join_all(waits).await;
    let expected =
        [5, 1, 4, 2, 3].map(|factor| (ErrorKind::TimedOut, Duration::from_millis(factor)));
    assert_eq!(ends, expected);
}

#[tokio::test(start_paused = true)]
async fn of_two_timeouts_the_shorter_one_counts() {
    let semaphore = Semaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    for (inner, outer) in [(SHORT, 2 * SHORT), (2 * SHORT, SHORT)] {
        let begun = Instant::now();
        let result = semaphore.acquire().timeout(inner).timeout(outer).await;
        assert_eq!(kind(result), ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), SHORT);
    }
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
async fn a_drain_has_a_deadline() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    semaphore.close();
    let begun = Instant::now();
    let result = semaphore.wait_idle().timeout(SHORT).await;
    assert_eq!(kind(result), ErrorKind::TimedOut);
    assert_eq!(begun.elapsed(), SHORT);
    tokio::spawn(async move {
        sleep(SHORT).await;
        drop(held);
    });
    assert_eq!(semaphore.wait_idle().timeout(2 * SHORT).await, Ok(()));
    assert_eq!(begun.elapsed(), 2 * SHORT);
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
