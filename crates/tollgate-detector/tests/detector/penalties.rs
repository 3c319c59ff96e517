//! Being shut out: from when, for how long, and whether again.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, ManualClock, Quota};
use tollgate_detector::Detector;

const MINUTE: Duration = Duration::from_secs(60);
const NANO: Duration = Duration::from_nanos(1);

fn detector() -> (Detector<u32>, ManualClock) {
    let clock = Clock::manual();
    clock.advance(MINUTE);
    let detector = Detector::new(Quota::per_minute(10))
        .penalty(5 * MINUTE)
        .clock(&clock);
    (detector, clock)
}

#[test]
fn the_penalty_ends_at_the_exact_tick() {
    let (detector, clock) = detector();
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
    let (detector, _clock) = detector();
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
    // All of it is still within the period.
    for _ in 0..10 {
        clock.advance(MINUTE);
        assert_eq!(detector.pass().flagged, []);
        assert!(detector.check(&1).is_ok());
    }
    // What is made from then on counts by itself.
    detector.record_many(&1, 10);
    assert_eq!(detector.pass().flagged, []);
    detector.record(&1);
    assert_eq!(detector.pass().flagged, [1]);
}

#[test]
fn who_goes_on_is_shut_out_for_longer() {
    let (detector, clock) = detector();
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
    let (detector, _clock) = detector();
    detector.record_many(&1, 11);
    detector.pass();
    detector.gate(&1).open();
    assert!(detector.check(&1).is_ok());
    assert_eq!(detector.flagged(), []);
    assert_eq!(detector.pass().flagged, []);
}

#[test]
fn who_waits_is_let_in_when_the_penalty_is_over() {
    let (detector, clock) = detector();
    let gate = detector.gate(&1);
    detector.record_many(&1, 11);
    detector.pass();
    let mut waiting = crate::support::Waiter::parked(gate.acquire());
    clock.advance(5 * MINUTE);
    waiting.granted();
}
