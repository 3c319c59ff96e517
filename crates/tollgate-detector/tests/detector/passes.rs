//! Tests how the period moves on with each pass.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::time::ManualClock;
use tollgate::{Clock, Quota};
use tollgate_detector::Detector;

use crate::support::Waiter;

const SECOND: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_secs(60);
const NANO: Duration = Duration::from_nanos(1);

fn detector(threshold: u64) -> (Detector<u32>, ManualClock) {
    let clock = Clock::manual();
    let detector = Detector::new(Quota::new(threshold, PERIOD)).clock(&clock);
    assert_eq!(detector.pass().counted, 0);
    (detector, clock)
}

#[test]
fn what_was_made_a_period_ago_does_not_count() {
    let (detector, clock) = detector(10);
    detector.record_many(&1, 10);
    clock.advance(SECOND);
    detector.pass();
    // The call may have been made just after the previous pass.
    clock.advance(PERIOD - SECOND + NANO);
    detector.record_many(&1, 10);
    let pass = detector.pass();
    assert_eq!(pass.flagged, []);
    assert!(pass.covered <= PERIOD);
    detector.record(&1);
    assert_eq!(detector.pass().flagged, [1]);
}

#[test]
fn what_was_made_within_a_period_counts() {
    let (detector, clock) = detector(10);
    detector.record_many(&1, 10);
    clock.advance(SECOND);
    detector.pass();
    clock.advance(PERIOD - SECOND);
    detector.record(&1);
    let pass = detector.pass();
    assert_eq!((pass.flagged, pass.covered), (vec![1], PERIOD));
}

#[test]
fn passes_that_are_farther_apart_than_the_period_find_nobody() {
    let (detector, clock) = detector(10);
    for _ in 0..3 {
        detector.record_many(&1, 1_000);
        clock.advance(PERIOD + NANO);
        let pass = detector.pass();
        assert_eq!((pass.counted, pass.flagged), (1_000, vec![]));
        assert_eq!(detector.top(10), []);
    }
    detector.record_many(&1, 11);
    clock.advance(PERIOD);
    assert_eq!(detector.pass().flagged, [1]);
}

/// Over many periods, a caller slightly above the threshold is flagged, and a caller exactly at the
/// threshold never is.
#[test]
fn who_keeps_on_is_flagged_in_the_end() {
    let (detector, clock) = detector(600);
    let mut flagged = Vec::new();
    for _ in 0..600 {
        // The first makes 600 calls in every 60 seconds, the second more than 600 in every 59
        // seconds.
        detector.record_many(&1, 10);
        detector.record_many(&2, 11);
        clock.advance(SECOND);
        flagged.extend(detector.pass().flagged);
    }
    assert!(flagged.len() >= 5, "{flagged:?}");
    assert!(flagged.iter().all(|&key| key == 2), "{flagged:?}");
}

#[test]
fn three_quarters_of_the_period_are_covered_less_the_time_between_two_passes() {
    let (detector, clock) = detector(1);
    let mut least = PERIOD;
    for second in 1..1_000 {
        clock.advance(SECOND);
        let covered = detector.pass().covered;
        assert!(covered <= PERIOD);
        if second >= 60 {
            least = least.min(covered);
        } else {
            assert_eq!(covered, second * SECOND);
        }
    }
    assert!(least >= PERIOD / 4 * 3 - SECOND, "{least:?}");
}

/// Holds for every offset, and after any earlier calls.
#[test]
fn an_excess_within_the_promised_time_is_flagged_by_the_pass_that_follows() {
    // 3/4 of 60 seconds, less twice the interval.
    const SPAN: u32 = 45 - 2 * 3;
    for start in 0..150_u32 {
        let (detector, clock) = detector(u64::from(SPAN) - 1);
        let mut flagged = Vec::new();
        for second in 0..=start + SPAN + 3 {
            clock.advance(SECOND);
            if (start..start + SPAN).contains(&second) {
                detector.record(&1);
            }
            if second % 3 == 0 {
                flagged.extend(detector.pass().flagged);
            }
        }
        assert_eq!(flagged, [1], "from {start} on");
    }
}

#[test]
fn a_detector_begins_when_it_is_first_used() {
    let clock = Clock::manual();
    let detector = Detector::new(Quota::new(10, PERIOD)).clock(&clock);
    clock.advance(100 * PERIOD);
    detector.record_many(&1, 11);
    let pass = detector.pass();
    assert_eq!((pass.flagged, pass.covered), (vec![1], Duration::ZERO));
}

// Repeated passes, made by a future on any executor.

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

// Threads that record while passes run.

#[test]
fn what_is_counted_and_what_is_lost_is_what_was_recorded() {
    const THREADS: u64 = 4;
    const CALLS: u64 = 20_000;
    let detector = Detector::new(Quota::per_hour(1))
        .buffer(16)
        .clock(Clock::manual());
    let (over, told) = (AtomicBool::new(false), AtomicU64::new(0));
    let pass = || {
        let pass = detector.pass();
        told.fetch_add(pass.counted + pass.lost, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        // Two passes may run at once.
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    pass();
                    thread::yield_now();
                }
            });
        }
        let recording: Vec<_> = (0..THREADS)
            .map(|thread| {
                let detector = &detector;
                scope.spawn(move || {
                    for call in 0..CALLS {
                        detector.record_many(&(call % 23 * (thread % 2)), 1 + call % 3);
                    }
                })
            })
            .collect();
        for thread in recording {
            thread.join().unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    pass();
    let recorded: u64 = (0..CALLS).map(|call| 1 + call % 3).sum();
    assert_eq!(told.load(Ordering::Relaxed), THREADS * recorded);
}

#[test]
fn gates_that_come_and_go_on_many_threads_leave_nothing() {
    let detector = Detector::new(Quota::per_hour(1)).clock(Clock::manual());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for turn in 0..3_000_u32 {
                    let gate = detector.gate(&(turn % 3));
                    if turn % 7 == 0 {
                        gate.block_for(std::time::Duration::from_secs(1));
                        assert!(detector.check(&(turn % 3)).is_err() || gate.is_open());
                    } else if turn % 7 == 3 {
                        gate.open();
                    }
                    if turn % 50 == 0 {
                        detector.pass();
                    }
                }
            });
        }
    });
    for key in 0..3 {
        detector.gate(&key).open();
    }
    detector.pass();
    assert_eq!((detector.gates(), detector.flagged()), (0, vec![]));
}

/// The last handle that is dropped removes its key, unless another handle was created meanwhile.
#[test]
fn a_handle_that_one_has_is_known_while_others_come_and_go() {
    let detector = Detector::new(Quota::per_hour(1)).clock(Clock::manual());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let gate = detector.gate(&1);
                    assert_eq!(detector.gates(), 1);
                    drop(gate);
                }
            });
        }
    });
    assert_eq!(detector.gates(), 0);
}

#[test]
fn key_shut_out_by_one_thread_is_shut_out_for_all() {
    let detector = Detector::new(Quota::per_hour(100)).clock(Clock::manual());
    let passes = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // Continues until the caller is blocked, even if many of its calls are lost.
                let gate = detector.gate(&1);
                while gate.check().is_ok() {
                    detector.record(&1);
                }
                assert!(passes.load(Ordering::SeqCst) > 0);
            });
        }
        loop {
            passes.fetch_add(1, Ordering::SeqCst);
            if !detector.pass().flagged.is_empty() {
                break;
            }
        }
    });
    assert_eq!(detector.flagged(), [1]);
}
