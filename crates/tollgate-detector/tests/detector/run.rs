//! Passes that are made again and again, by a future on whatever executor.

use std::time::Duration;

use tollgate::{Clock, Quota};
use tollgate_detector::Detector;

use crate::support::Waiter;

const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);

#[test]
fn it_passes_once_in_each_interval_of_its_clock() {
    let clock = Clock::manual();
    let detector = Detector::new(Quota::per_minute(10)).clock(&clock);
    let mut run = Waiter::parked(detector.run(SECOND));
    for round in 1..5 {
        detector.record_many(&round, 11);
        clock.advance(SECOND - NANO);
        assert!(run.is_pending());
        assert!(detector.check(&round).is_ok());
        clock.advance(NANO);
        assert_eq!(run.wakes(), round);
        assert!(run.is_pending());
        assert!(detector.check(&round).is_err());
    }
}

#[test]
fn it_ends_when_it_is_dropped() {
    let clock = Clock::manual();
    let detector = Detector::new(Quota::per_minute(10)).clock(&clock);
    let run = Waiter::parked(detector.run(SECOND));
    drop(run);
    detector.record_many(&1, 11);
    clock.advance(SECOND);
    assert!(detector.check(&1).is_ok());
    assert_eq!(detector.pass().flagged, [1]);
}

#[test]
fn on_the_time_of_tokio_it_runs_in_a_task() {
    use std::sync::Arc;

    crate::support::paused_runtime().block_on(async {
        let detector = Detector::new(Quota::per_minute(10)).clock(Clock::tokio());
        let detector = Arc::new(detector.penalty(5 * SECOND));
        let gate = detector.gate(&1);
        let task = tokio::spawn({
            let detector = Arc::clone(&detector);
            async move { detector.run(SECOND).await }
        });
        detector.record_many(&1, 11);
        tokio::time::sleep(SECOND * 3 / 2).await;
        assert_eq!(detector.flagged(), [1]);
        gate.acquire().await.unwrap();
        assert_eq!(detector.flagged(), []);
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(Arc::strong_count(&detector), 1);
    });
}
