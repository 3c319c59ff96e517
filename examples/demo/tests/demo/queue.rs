//! The waiters that are cancelled and come back.

use serde_json::Value;
use tokio::time::Duration;

use super::common::Demo;

/// Starts with one call per second, so that none is admitted meanwhile.
async fn slow() -> Demo {
    let demo = Demo::start().await;
    demo.send("PUT", "/settings/queue.quota", "1").await;
    demo
}

/// Returns how many waiters wait, were admitted and were cancelled, by the numbers of an event, which
/// are those of the list.
fn counts(queue: &Value) -> [u64; 3] {
    let list = queue["waiters"].as_str().expect("a text");
    let counts = [("waiting", 'w'), ("admitted", 'a'), ("cancelled", 'c')].map(|(name, state)| {
        let count = queue[name].as_u64().expect("a number");
        assert_eq!(count, list.matches(state).count() as u64, "{name}");
        count
    });
    assert_eq!(counts.iter().sum::<u64>(), 200);
    counts
}

async fn next_counts(demo: &Demo) -> [u64; 3] {
    counts(&demo.event().await["queue"])
}

#[tokio::test(start_paused = true)]
async fn cancel_then_refill_leaves_a_fifth_and_brings_all_back() {
    let demo = slow().await;
    // The first one did not have to wait.
    assert_eq!(next_counts(&demo).await, [199, 1, 0]);

    assert_eq!(demo.send("POST", "/queue/cancel", "").await.status(), 204);
    assert_eq!(next_counts(&demo).await, [40, 1, 159]);

    assert_eq!(demo.send("POST", "/queue/refill", "").await.status(), 204);
    assert_eq!(next_counts(&demo).await, [200, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn cancel_shortens_the_wait_of_the_last_and_keeps_the_rate() {
    let demo = Demo::start().await;
    demo.event_after(Duration::from_secs(1)).await;
    // Ten a second, looked at half-way between two of them.
    for (first, wait_ms) in [(188, 18_850), (34, 3450)] {
        for event in 0..10 {
            let queue = demo.event().await["queue"].take();
            assert_eq!(queue["per_second"], 10);
            assert_eq!(counts(&queue)[0], first - event);
            let seconds = queue["last_waits_s"].as_f64().expect("a number");
            assert_eq!((seconds * 1000.0).round() as u64, wait_ms - 100 * event);
        }
        // Six more are admitted before the list is looked at, and four of five of the others leave.
        if first == 188 {
            demo.event_after(Duration::from_millis(500)).await;
            demo.send("POST", "/queue/cancel", "").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refill_directly_after_cancel_replaces_the_cancelled() {
    let demo = slow().await;
    demo.send("POST", "/queue/cancel", "").await;
    demo.send("POST", "/queue/refill", "").await;
    assert_eq!(next_counts(&demo).await, [200, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn refill_after_cancel_keeps_the_list_in_the_order_of_admission() {
    let demo = slow().await;
    demo.send("POST", "/queue/cancel", "").await;
    demo.send("POST", "/queue/refill", "").await;
    demo.send("PUT", "/settings/queue.quota", "100").await;
    // Those that kept their place are admitted first, then the new ones: always the next of the list.
    for event in 1..=19 {
        let queue = demo.event().await["queue"].take();
        let admitted = 10 * event;
        assert_eq!(
            queue["waiters"],
            "a".repeat(admitted) + &"w".repeat(200 - admitted)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_lets_the_rest_move_up() {
    let demo = slow().await;
    demo.send("POST", "/queue/cancel", "").await;
    demo.send("PUT", "/settings/queue.quota", "20").await;
    let queue = demo.event_after(Duration::from_millis(2050)).await["queue"].take();
    // One of 40 each 50 ms, instead of one of 199.
    assert_eq!(counts(&queue), [0, 41, 159]);
}

#[tokio::test(start_paused = true)]
async fn queue_that_has_been_empty_for_two_seconds_is_full_again() {
    let demo = Demo::start().await;
    demo.send("PUT", "/settings/queue.quota", "200").await;
    let queue = demo.event_after(Duration::from_secs(2)).await["queue"].take();
    assert_eq!(counts(&queue), [0, 200, 0]);
    demo.send("PUT", "/settings/queue.quota", "1").await;
    let queue = demo.event_after(Duration::from_secs(2)).await["queue"].take();
    assert!(counts(&queue)[0] >= 198, "{queue}");
}
