//! One of a thousand callers makes too many calls, and is blocked; all others are admitted.

use std::{sync::Arc, time::Duration};
use tollgate::{Clock, Quota};
use tollgate_detector::Detector;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let clock = Clock::manual();
    let detector = Arc::new(Detector::new(Quota::per_minute(600)).clock(&clock));
    let passes = Arc::clone(&detector);
    tokio::spawn(async move { passes.run(Duration::from_secs(1)).await });

    // Each connection keeps the gate of its caller.
    let callers: Vec<_> = (0..=1000).map(|key| (key, detector.gate(&key))).collect();
    let mut refused = vec![0; callers.len()];
    for _ in 0..60 {
        tokio::task::yield_now().await;
        for (key, gate) in &callers {
            for _ in 0..if *key == 7 { 100 } else { 10 } {
                match gate.check() {
                    Ok(()) => detector.record(key),
                    Err(_) => refused[*key] += 1,
                }
            }
        }
        clock.advance(Duration::from_secs(1));
    }
    assert!(refused[7] > 5_000 && refused.iter().sum::<i32>() == refused[7]);
    println!("{:?} refused {} times", detector.flagged(), refused[7]);
}
