//! The waiters that are cancelled and come back.

use tokio::time::Duration;

use super::common::Demo;

fn count(queue: &serde_json::Value, state: char) -> usize {
    queue["waiters"]
        .as_str()
        .expect("a text")
        .matches(state)
        .count()
}

/// Starts with one call per second, so that none is admitted meanwhile.
async fn slow() -> Demo {
    let demo = Demo::start().await;
    demo.send("PUT", "/settings/queue.quota", "1").await;
    demo
}

#[tokio::test(start_paused = true)]
async fn cancel_then_refill_leaves_a_fifth_and_brings_all_back() {
    let demo = slow().await;
    let queue = demo.event().await["queue"].take();
    // The first one did not have to wait.
    assert_eq!(
        (queue["waiting"].as_u64(), queue["admitted"].as_u64()),
        (Some(199), Some(1))
    );
    assert_eq!((count(&queue, 'w'), count(&queue, 'a')), (199, 1));

    assert_eq!(demo.send("POST", "/queue/cancel", "").await.status(), 204);
    let queue = demo.event().await["queue"].take();
    assert_eq!(
        (queue["waiting"].as_u64(), queue["cancelled"].as_u64()),
        (Some(40), Some(159))
    );
    assert_eq!((count(&queue, 'w'), count(&queue, 'c')), (40, 159));

    assert_eq!(demo.send("POST", "/queue/refill", "").await.status(), 204);
    let queue = demo.event().await["queue"].take();
    assert_eq!(
        (queue["waiting"].as_u64(), count(&queue, 'w')),
        (Some(200), 200)
    );
}

#[tokio::test(start_paused = true)]
async fn refill_directly_after_cancel_replaces_the_cancelled() {
    let demo = slow().await;
    demo.send("POST", "/queue/cancel", "").await;
    demo.send("POST", "/queue/refill", "").await;
    let queue = demo.event().await["queue"].take();
    assert_eq!(
        (queue["waiting"].as_u64(), count(&queue, 'w')),
        (Some(200), 200)
    );
}

#[tokio::test(start_paused = true)]
async fn cancel_lets_the_rest_move_up() {
    let demo = slow().await;
    demo.send("POST", "/queue/cancel", "").await;
    demo.send("PUT", "/settings/queue.quota", "20").await;
    let queue = demo.event_after(Duration::from_millis(2050)).await["queue"].take();
    // One of 40 each 50 ms, instead of one of 199.
    assert_eq!(
        (queue["waiting"].as_u64(), count(&queue, 'a')),
        (Some(0), 41)
    );
}

#[tokio::test(start_paused = true)]
async fn queue_that_has_been_empty_for_two_seconds_is_full_again() {
    let demo = Demo::start().await;
    demo.send("PUT", "/settings/queue.quota", "200").await;
    let queue = demo.event_after(Duration::from_secs(2)).await["queue"].take();
    assert_eq!(
        (queue["waiting"].as_u64(), queue["admitted"].as_u64()),
        (Some(0), Some(200))
    );
    demo.send("PUT", "/settings/queue.quota", "1").await;
    let queue = demo.event_after(Duration::from_secs(2)).await["queue"].take();
    assert!(queue["waiting"].as_u64() >= Some(198), "{queue}");
}
