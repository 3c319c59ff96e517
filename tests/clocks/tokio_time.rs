//! `Clock::tokio()` in one runtime whose time is paused: exact to the tick.

use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, advance, sleep};
use tollgate::{Clock, Quota, RateLimiter};

use crate::support::{Waiter, in_destructors};
use crate::{SECOND, acquire_times, millis};

/// Returns a limiter of one per `interval`, with one owed.
fn limiter(interval: Duration) -> RateLimiter {
    let limiter = RateLimiter::new(Quota::new(1, interval)).clock(Clock::tokio());
    limiter.try_acquire().unwrap();
    limiter
}

/// Lets the runtime run everything that is due, without a sleep that would advance paused time.
async fn run_what_is_due() {
    for _ in 0..5 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn waits_end_exactly_when_they_are_due() {
    let day = Duration::from_secs(86_400);
    for interval in [millis(1), millis(999), SECOND, 7 * day] {
        let begun = Instant::now();
        let limiter = limiter(interval);
        for number in 1..=20 {
            limiter.acquire().await.unwrap();
            assert_eq!(begun.elapsed(), number * interval);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn charges_are_exact_and_waits_end_at_the_next_whole_millisecond() {
    let limiter = RateLimiter::new(Quota::per_second(3).burst(3)).clock(Clock::tokio());
    let begun = Instant::now();
    let first = limiter.acquire_many(3).await.unwrap().at();
    for number in 1..=30_u32 {
        let charge = limiter.acquire().await.unwrap();
        let due = (number * SECOND).as_nanos().div_ceil(3);
        // What is promised is exact to one nanosecond, the resolution of the clock.
        let after = charge.at().saturating_since(first).as_nanos();
        assert!(after == due || after + 1 == due, "{after}, not {due}");
        assert_eq!(begun.elapsed().as_millis(), due.div_ceil(1_000_000));
    }
    assert_eq!(begun.elapsed(), 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn advance_moves_the_time_of_the_limiter() {
    let limiter = limiter(millis(100));
    assert_eq!(limiter.peek().retry_after, Some(millis(100)));
    advance(millis(99)).await;
    assert_eq!(limiter.peek().retry_after, Some(millis(1)));
    assert!(limiter.try_acquire().is_err());
    let mut waiter = Waiter::parked(limiter.acquire());
    run_what_is_due().await;
    assert_eq!(waiter.wakes(), 0);
    advance(millis(1)).await;
    run_what_is_due().await;
    assert_eq!(waiter.wakes(), 1);
    waiter.granted();
}

/// At the end of a thread, tokio cannot tell the time once that of any runtime was paused.
#[tokio::test(start_paused = true)]
async fn now_in_a_destructor_of_a_thread_is_the_time_of_the_machine() {
    let ticks = in_destructors(|| Clock::tokio().now()).collect::<Vec<_>>();
    assert_eq!(ticks.len(), 3);
    assert!(ticks.is_sorted());
}

#[tokio::test(start_paused = true)]
async fn acquire_in_a_destructor_of_a_thread_is_admitted() {
    let limiter = RateLimiter::new(Quota::new(1, millis(1))).clock(Clock::tokio());
    let charges = in_destructors(move || limiter.acquire().wait().unwrap().at());
    let ticks = charges.collect::<Vec<_>>();
    assert_eq!(ticks.len(), 3);
    assert!(ticks.is_sorted());
}

#[tokio::test(start_paused = true)]
async fn queue_moves_while_nobody_polls() {
    let limiter = limiter(millis(100));
    let first = Clock::tokio().now();
    let mut waiters: Vec<_> = (0..5).map(|_| Waiter::parked(limiter.acquire())).collect();
    sleep(SECOND).await;
    assert_eq!(limiter.snapshot().waiting, 0);
    for (waiter, number) in waiters.iter_mut().zip(1..) {
        assert_eq!(waiter.wakes(), 1);
        let at = waiter.granted().at().saturating_since(first);
        assert_eq!(at, number * millis(100));
    }
}

#[tokio::test(start_paused = true)]
async fn many_limiters_each_keep_their_own_time() {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for interval in (1..=100).map(millis) {
        let limiter = limiter(interval);
        tasks.spawn(async move {
            acquire_times(&limiter, 10).await;
            assert_eq!(begun.elapsed(), 10 * interval);
        });
    }
    let ended = tasks.join_all().await.len();
    assert_eq!((ended, begun.elapsed()), (100, SECOND));
}
