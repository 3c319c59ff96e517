//! What is lost, and that it is told.

use tollgate::{Clock, Quota};
use tollgate_detector::Detector;

fn detector(buffer: usize) -> Detector<u32> {
    let quota = Quota::per_minute(100);
    Detector::new(quota).buffer(buffer).clock(Clock::manual())
}

#[test]
fn for_want_of_room_others_are_lost_and_told() {
    let detector = detector(4);
    for key in 0..10 {
        detector.record_many(&key, 2);
    }
    let pass = detector.pass();
    assert_eq!((pass.counted, pass.lost, pass.error), (8, 12, 12));
    let top = detector.top(10);
    assert_eq!(top.len(), 4);
    // It may all have been of one.
    assert!(
        top.iter()
            .all(|count| (count.at_least, count.at_most) == (2, 14))
    );
}

#[test]
fn who_has_a_place_loses_nothing() {
    let detector = detector(2);
    detector.record(&1);
    for key in 2..1_000 {
        detector.record(&key);
        detector.record(&1);
    }
    let pass = detector.pass();
    assert_eq!((pass.flagged, pass.counted), (vec![1], 1_000));
}

#[test]
fn after_a_pass_there_is_room_again() {
    let detector = detector(4);
    for round in 0..10 {
        for key in 0..4 {
            detector.record(&(4 * round + key));
        }
        let pass = detector.pass();
        assert_eq!((pass.counted, pass.lost, pass.error), (4, 0, 0));
    }
}

#[test]
fn what_was_lost_is_forgotten_with_the_time_in_which_it_was() {
    let clock = Clock::manual();
    let quota = Quota::per_minute(100);
    let detector = Detector::new(quota).buffer(1).clock(&clock);
    detector.record(&1);
    detector.record(&2);
    assert_eq!(detector.pass().error, 1);
    for _ in 0..12 {
        clock.advance(std::time::Duration::from_secs(5));
        let pass = detector.pass();
        assert_eq!((pass.lost, pass.error), (0, 1));
    }
    clock.advance(std::time::Duration::from_secs(5));
    assert_eq!(detector.pass().error, 0);
}

#[test]
fn nothing_recorded_is_nothing_counted() {
    let detector = detector(4);
    detector.record_many(&1, 0);
    let pass = detector.pass();
    assert_eq!((pass.counted, pass.lost), (0, 0));
    assert_eq!(pass.flagged, []);
}
