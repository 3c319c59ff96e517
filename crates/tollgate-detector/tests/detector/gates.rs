//! Tests the gates of a detector: one for each key, and none without a use.

use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use tollgate::time::ManualClock;
use tollgate::{Clock, ErrorKind, Gate, Quota};
use tollgate_detector::{Count, Detector, Pass};

use crate::support::foreign::panic_message;

const MINUTE: Duration = Duration::from_secs(60);

fn detector() -> (Detector<u32>, ManualClock) {
    let clock = Clock::manual();
    (Detector::new(Quota::per_minute(10)).clock(&clock), clock)
}

#[test]
fn all_handles_of_a_key_are_of_one_gate() {
    let (detector, _clock) = detector();
    let (one, other) = (detector.gate(&1), detector.gate(&1));
    one.block_for(MINUTE);
    assert!(other.check().is_err() && detector.check(&1).is_err());
    assert!(detector.gate(&2).check().is_ok());
    assert_eq!(detector.gates(), 1);
}

#[test]
fn a_gate_that_nobody_has_any_more_leaves_nothing_behind() {
    let (detector, _clock) = detector();
    let held = detector.gate(&0);
    for key in 0..10_000 {
        let gate = detector.gate(&key);
        drop(gate.clone());
        drop(gate);
    }
    assert_eq!(detector.gates(), 1);
    drop(held);
    assert_eq!(detector.gates(), 0);
}

#[test]
fn one_that_is_shut_is_kept_until_it_is_open_again() {
    let (detector, clock) = detector();
    detector.gate(&1).block_for(MINUTE);
    detector.record_many(&2, 11);
    assert_eq!(detector.pass().flagged, [2]);
    let mut flagged = detector.flagged();
    flagged.sort_unstable();
    assert_eq!((detector.gates(), flagged), (2, vec![1, 2]));
    clock.advance(MINUTE);
    assert_eq!(detector.flagged(), []);
    detector.pass();
    assert_eq!(detector.gates(), 0);
    // Does the same again: no state is left from the first time.
    detector.gate(&1).block_for(MINUTE);
    assert_eq!((detector.flagged(), detector.gates()), (vec![1], 1));
}

#[test]
fn one_that_is_shut_twice_is_kept_once() {
    let (detector, clock) = detector();
    let gate = detector.gate(&1);
    gate.block_for(MINUTE);
    gate.block_for(2 * MINUTE);
    clock.advance(MINUTE);
    detector.pass();
    assert_eq!(detector.flagged(), [1]);
    gate.open();
    gate.block_for(MINUTE);
    assert_eq!(detector.flagged(), [1]);
    clock.advance(MINUTE);
    detector.pass();
    assert_eq!((detector.flagged(), detector.gates()), (vec![], 1));
    // Does the same again, with a gate that was kept before.
    gate.block_for(MINUTE);
    drop(gate);
    assert_eq!((detector.flagged(), detector.gates()), (vec![1], 1));
    clock.advance(MINUTE);
    detector.pass();
    assert_eq!(detector.gates(), 0);
}

/// All callers exceed the threshold, but no more gates are blocked at once than there are counters.
#[test]
fn those_who_are_shut_out_are_bounded() {
    let clock = Clock::manual();
    let detector = Detector::new(Quota::per_minute(10))
        .capacity(3)
        .clock(&clock);
    for key in 0..3 {
        detector.record_many(&key, 11);
    }
    let pass = detector.pass();
    assert_eq!((pass.flagged.len(), pass.passed_over), (3, 0));
    for key in 10..13 {
        detector.record_many(&key, 1_000);
    }
    let pass = detector.pass();
    assert_eq!((pass.flagged.len(), pass.passed_over), (0, 3));
    assert_eq!(detector.gates(), 3);
    assert!(detector.check(&10).is_ok());
    // A blocked caller may be blocked for longer.
    detector.record_many(&0, 2_000);
    let pass = detector.pass();
    assert_eq!((pass.flagged, pass.passed_over), (vec![0], 2));
    // When there is room again, the other callers are checked again.
    detector.gate(&1).open();
    let pass = detector.pass();
    assert_eq!((pass.flagged.len(), pass.passed_over), (1, 1));
    assert_eq!(detector.gates(), 3);
}

#[test]
fn gates_outlive_their_detector() {
    let (detector, clock) = detector();
    let (gate, other) = (detector.gate(&1), detector.gate(&2));
    gate.block_for(MINUTE);
    drop(detector);
    assert!(gate.check().is_err());
    other.block_for(MINUTE);
    assert!(other.check().is_err());
    clock.advance(MINUTE);
    assert!(gate.check().is_ok() && other.check().is_ok());
}

#[test]
fn a_key_that_panics_does_no_harm_to_others() {
    use std::cell::Cell;
    use std::hash::{Hash, Hasher};

    thread_local! {
        static PANICS: Cell<bool> = const { Cell::new(false) };
    }

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Key(u32);

    impl Hash for Key {
        fn hash<H: Hasher>(&self, state: &mut H) {
            assert!(!PANICS.get(), "a hash that panics on purpose");
            self.0.hash(state);
        }
    }

    let detector = Detector::new(Quota::per_minute(10)).clock(Clock::manual());
    let gate: Gate = detector.gate(&Key(1));
    PANICS.set(true);
    let failed = |run: &dyn Fn()| {
        let run = std::panic::AssertUnwindSafe(run);
        assert!(std::panic::catch_unwind(run).is_err());
    };
    failed(&|| detector.record(&Key(2)));
    failed(&|| drop(detector.gate(&Key(2))));
    drop(gate);
    PANICS.set(false);
    assert_eq!(detector.gates(), 0);
    detector.record_many(&Key(1), 11);
    assert_eq!(detector.pass().flagged, [Key(1)]);
    assert!(detector.gate(&Key(1)).check().is_err());
    assert!(detector.check(&Key(2)).is_ok());
}

// The penalty: its beginning, its length, and its repetition.

const NANO: Duration = Duration::from_nanos(1);

fn with_penalty() -> (Detector<u32>, ManualClock) {
    let clock = Clock::manual();
    clock.advance(MINUTE);
    let detector = Detector::new(Quota::per_minute(10))
        .penalty(5 * MINUTE)
        .clock(&clock);
    (detector, clock)
}

#[test]
fn the_penalty_ends_at_the_exact_tick() {
    let (detector, clock) = with_penalty();
    let gate = detector.gate(&1);
    detector.record_many(&1, 11);
    assert!(gate.check().is_ok(), "nobody has looked yet");
    assert_eq!(detector.pass().flagged, [1]);
    for refused in [gate.check().unwrap_err(), detector.check(&1).unwrap_err()] {
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
        assert_eq!(refused.retry_after(), Some(5 * MINUTE));
    }
    clock.advance(5 * MINUTE - NANO);
    assert!(gate.check().is_err() && detector.check(&1).is_err());
    assert_eq!(detector.flagged(), [1]);
    clock.advance(NANO);
    assert!(gate.check().is_ok() && detector.check(&1).is_ok());
    assert_eq!(detector.flagged(), []);
}

#[test]
fn by_default_it_is_as_long_as_the_period() {
    let detector = Detector::new(Quota::per_hour(1)).clock(Clock::manual());
    detector.record_many(&1, 2);
    detector.pass();
    let after = detector.check(&1).unwrap_err().retry_after();
    assert_eq!(after, Some(60 * MINUTE));
}

#[test]
fn a_gate_that_is_asked_for_afterwards_is_shut() {
    let (detector, _clock) = with_penalty();
    detector.record_many(&1, 11);
    detector.pass();
    assert!(detector.gate(&1).check().is_err());
    assert!(detector.gate(&2).check().is_ok());
}

#[test]
fn one_excess_has_one_penalty() {
    let clock = Clock::manual();
    let detector = Detector::new(Quota::per_hour(10))
        .penalty(MINUTE)
        .clock(&clock);
    detector.record_many(&1, 1_000);
    assert_eq!(detector.pass().flagged, [1]);
    // All calls are still within the period.
    for _ in 0..10 {
        clock.advance(MINUTE);
        assert_eq!(detector.pass().flagged, []);
        assert!(detector.check(&1).is_ok());
    }
    // Later calls count separately.
    detector.record_many(&1, 10);
    assert_eq!(detector.pass().flagged, []);
    detector.record(&1);
    assert_eq!(detector.pass().flagged, [1]);
}

#[test]
fn who_goes_on_is_shut_out_for_longer() {
    let (detector, clock) = with_penalty();
    detector.record_many(&1, 11);
    detector.pass();
    clock.advance(MINUTE);
    detector.record_many(&1, 11);
    assert_eq!(detector.pass().flagged, [1]);
    let after = detector.check(&1).unwrap_err().retry_after();
    assert_eq!(after, Some(5 * MINUTE));
    assert_eq!(detector.flagged(), [1]);
}

#[test]
fn who_is_let_off_is_let_off() {
    let (detector, _clock) = with_penalty();
    detector.record_many(&1, 11);
    detector.pass();
    detector.gate(&1).open();
    assert!(detector.check(&1).is_ok());
    assert_eq!(detector.flagged(), []);
    assert_eq!(detector.pass().flagged, []);
}

#[test]
fn who_waits_is_let_in_when_the_penalty_is_over() {
    let (detector, clock) = with_penalty();
    let gate = detector.gate(&1);
    detector.record_many(&1, 11);
    detector.pass();
    let mut waiting = crate::support::Waiter::parked(gate.acquire());
    clock.advance(5 * MINUTE);
    waiting.granted();
}

// The values that the options of a detector reject, and the types that it supports.

/// Fails unless `run` panics with this message.
#[track_caller]
fn rejects<R>(expected: &str, run: impl FnOnce() -> R) {
    let message = panic_message(run).expect("it did not panic");
    assert!(message.contains(expected), "{message}");
}

#[test]
fn options_that_could_detect_nothing_panic() {
    const MAX: usize = 1 << 24;
    let new = || Detector::<u64>::new(Quota::per_minute(10));
    rejects("the threshold of a detector cannot have a burst", || {
        Detector::<u64>::new(Quota::per_minute(10).burst(5))
    });
    rejects("the threshold of a detector cannot be unlimited", || {
        Detector::<u64>::new(Quota::UNLIMITED)
    });
    for size in [0, MAX + 1, usize::MAX] {
        rejects("from 1 to 16777216 counters", || new().capacity(size));
        rejects("a buffer of 1 to 16777216 keys", || new().buffer(size));
    }
    // The detector allocates no memory before the first use.
    for size in [1, MAX] {
        assert_eq!(panic_message(|| new().capacity(size).buffer(size)), None);
    }
    rejects("a penalty of 0ns", || new().penalty(Duration::ZERO));
    assert_eq!(panic_message(|| new().penalty(Duration::MAX)), None);
    rejects("an interval of 0ns", || drop(new().run(Duration::ZERO)));
}

#[test]
fn option_of_a_detector_after_the_first_use_panics() {
    type One = fn(Detector<u64>) -> Detector<u64>;
    let uses: [fn(&Detector<u64>); 4] = [
        |detector| detector.record(&1),
        |detector| drop(detector.gate(&1)),
        |detector| drop(detector.check(&1)),
        |detector| drop(detector.pass()),
    ];
    let options: [One; 4] = [
        |detector| detector.penalty(Duration::MAX),
        |detector| detector.capacity(1),
        |detector| detector.buffer(1),
        |detector| detector.clock(Clock::manual()),
    ];
    for option in options {
        for used in uses {
            // An option does not count as a use.
            let new = Detector::new(Quota::per_minute(10));
            let detector = options.iter().fold(new, |detector, set| set(detector));
            used(&detector);
            rejects("an option must be set before the first use", || {
                option(detector)
            });
        }
    }
}

static DETECTOR: Detector<u64> = Detector::new(Quota::per_minute(100))
    .penalty(Duration::from_secs(600))
    .capacity(100)
    .buffer(10);

#[test]
fn detector_in_a_static_is_used_like_any_other() {
    DETECTOR.record_many(&1, 101);
    assert_eq!(DETECTOR.pass().flagged, [1]);
    assert!(DETECTOR.check(&1).is_err());
    fn sent<F: Future + Send + 'static>(_: F) {}
    sent(DETECTOR.run(Duration::from_secs(1)));
}

#[test]
fn detector_of_keys_that_can_be_sent_is_shared_and_unwound_through() {
    fn all<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe>() {}
    all::<Detector<u64>>();
    all::<Detector<std::cell::Cell<u8>>>();
    all::<Pass<u64>>();
    all::<Count<u64>>();
}
