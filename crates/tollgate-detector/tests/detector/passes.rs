//! How the period rolls on, from pass to pass.

use std::time::Duration;

use tollgate::{Clock, ManualClock, Quota};
use tollgate_detector::Detector;

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
    // It may have been made just after the pass before.
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

/// The same from period to period: one who makes a little too much is found, and one who makes as
/// much as is allowed never is.
#[test]
fn who_keeps_on_is_flagged_in_the_end() {
    let (detector, clock) = detector(600);
    let mut flagged = Vec::new();
    for _ in 0..600 {
        // In every 60 seconds 600; and in every 59 seconds more than 600.
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

/// Whatever the offset, and whatever has gone on before.
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
