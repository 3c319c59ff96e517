#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/limit_kafka.rs");

use std::cell::Cell;
use std::time::Duration;

use tokio::time::{Instant, sleep};

async fn most_at_once(work: Duration) -> (u64, Duration) {
    let (slots, rate) = (Semaphore::new(16), RateLimiter::new(Quota::per_second(100)));
    let (running, most, begun) = (Cell::new(0), Cell::new(0), Instant::now());
    let handle = async |_| {
        running.set(running.get() + 1);
        most.set(most.get().max(running.get()));
        sleep(work).await;
        running.set(running.get() - 1);
    };
    let records = futures::stream::iter(0..320);
    consume(records, (&slots, &rate), handle).await.unwrap();
    (most.get(), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn consume_of_short_work_keeps_the_rate() {
    let (most, elapsed) = most_at_once(Duration::from_millis(15)).await;
    assert_eq!((most, elapsed), (2, Duration::from_millis(319 * 10 + 15)));
}

/// The rate spaces the 16 of each second, so the last begins 150 ms after the first.
#[tokio::test(start_paused = true)]
async fn consume_of_long_work_keeps_the_slots() {
    let (most, elapsed) = most_at_once(Duration::from_secs(1)).await;
    assert_eq!(
        (most, elapsed),
        (16, Duration::from_millis(20 * 1000 + 15 * 10))
    );
}
