#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/limit_a_websocket.rs");

use std::time::Duration;

use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn serve_handles_a_burst_and_then_the_rate() {
    let limit = RateLimiter::new(Quota::per_second(10).burst(20));
    let (begun, mut times) = (Instant::now(), Vec::new());
    let messages = futures::stream::iter(0..100);
    let served = serve(messages, &limit, async |_| times.push(begun.elapsed()));
    served.await.unwrap();
    let due = |message: u64| Duration::from_millis(100 * message.saturating_sub(19));
    assert_eq!(times, (0..100).map(due).collect::<Vec<_>>());
}
