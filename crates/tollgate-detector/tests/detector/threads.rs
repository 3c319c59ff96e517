//! Threads that record while passes are made.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tollgate::{Clock, Quota};
use tollgate_detector::Detector;

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
        // Two passes at once are nothing special.
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

/// The last handle that goes takes its key out, unless another one has come meanwhile.
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
                // Goes on until it is shut out, however many of its calls get lost.
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
