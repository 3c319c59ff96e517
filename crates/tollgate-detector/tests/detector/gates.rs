//! The gates of a detector: one for each key, and none that nobody needs.

use std::time::Duration;

use tollgate::{Clock, Gate, ManualClock, Quota};
use tollgate_detector::Detector;

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
    // The same again: nothing is left of the first time.
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
    // The same again, with one that was kept before.
    gate.block_for(MINUTE);
    drop(gate);
    assert_eq!((detector.flagged(), detector.gates()), (vec![1], 1));
    clock.advance(MINUTE);
    detector.pass();
    assert_eq!(detector.gates(), 0);
}

/// Each makes too much; but no more are shut out at once than there are counters.
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
    // Who is shut out already may be so for longer.
    detector.record_many(&0, 2_000);
    let pass = detector.pass();
    assert_eq!((pass.flagged, pass.passed_over), (vec![0], 2));
    // When there is room again, the others are looked at again.
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
