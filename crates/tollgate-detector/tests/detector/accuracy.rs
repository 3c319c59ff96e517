//! Who is flagged, and who is not, among very many.

use std::time::Duration;

use tollgate::{Clock, Quota};
use tollgate_detector::Detector;

use crate::support::random::Random;

const SECOND: Duration = Duration::from_secs(1);

/// One in a hundred calls is of one caller, all others are each of a caller of its own.
#[test]
fn a_heavy_hitter_among_a_million_others_is_flagged_and_nobody_else() {
    const HEAVY: u64 = 7_000_000_000;
    let clock = Clock::manual();
    let detector = Detector::new(Quota::per_minute(2_000))
        .capacity(100)
        .buffer(64)
        .clock(&clock);
    let (mut flagged, mut lost) = (Vec::new(), 0);
    for call in 0..1_000_000_u64 {
        detector.record(&call);
        if call % 100 == 0 {
            detector.record(&HEAVY);
        }
        if call % 20_000 == 19_999 {
            clock.advance(SECOND);
            let pass = detector.pass();
            lost += pass.lost;
            flagged.extend(pass.flagged);
        }
    }
    // 200 a second: over 2,000 after eleven seconds, and again after eleven more.
    assert_eq!(flagged, [HEAVY; 4]);
    assert_eq!(detector.flagged(), [HEAVY]);
    assert!(lost > 900_000, "with so small a buffer, {lost}");
    assert!(detector.check(&HEAVY).is_err());
    assert_eq!(detector.gates(), 1);
    for innocent in [0, 1, 999_999, 12_345] {
        assert!(detector.check(&innocent).is_ok());
    }
}

/// The counters change hands all the time, and estimates run up far above the threshold.
#[test]
fn nobody_is_flagged_by_an_estimate() {
    let detector = Detector::new(Quota::per_minute(10))
        .capacity(4)
        .clock(Clock::manual());
    for call in 0..4_000_u64 {
        detector.record(&call);
        if call % 1_000 == 999 {
            assert_eq!(detector.pass().flagged, []);
        }
    }
    for count in detector.top(4) {
        assert!(count.at_most > 500 && count.at_least <= 1, "{count:?}");
    }
}

#[test]
fn at_the_threshold_one_is_not_flagged_and_above_it_one_is() {
    let detector = Detector::new(Quota::per_minute(10)).clock(Clock::manual());
    detector.record_many(&'a', 10);
    detector.record_many(&'b', 11);
    assert_eq!(detector.pass().flagged, ['b']);
    detector.record(&'a');
    assert_eq!(detector.pass().flagged, ['a']);
}

#[test]
fn the_error_that_is_told_is_at_most_what_was_counted_by_counters() {
    let mut random = Random::new(1);
    let detector = Detector::new(Quota::per_minute(1_000_000))
        .capacity(50)
        .clock(Clock::manual());
    let mut total = 0;
    for _ in 0..20 {
        for _ in 0..500 {
            let key = random.below(200).min(random.below(200));
            detector.record_many(&key, 3);
            total += 3;
        }
        let pass = detector.pass();
        assert_eq!((pass.counted, pass.lost), (1_500, 0));
        assert!(pass.error <= total / 50, "{} of {total}", pass.error);
    }
}

/// Of the same length, so nobody can be told from it.
#[test]
fn keys_with_memory_of_their_own_are_told_apart() {
    let detector = Detector::new(Quota::per_minute(5)).clock(Clock::manual());
    for caller in 0..100 {
        let times = if caller == 37 { 6 } else { 5 };
        for _ in 0..times {
            detector.record(&format!("caller {caller:02}"));
        }
    }
    assert_eq!(detector.pass().flagged, ["caller 37"]);
}

/// All hashes are the same.
#[test]
fn keys_whose_hashes_collide_are_told_apart() {
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Collides(u32);

    impl std::hash::Hash for Collides {
        fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
    }

    let detector = Detector::new(Quota::per_minute(5)).clock(Clock::manual());
    for caller in 0..50 {
        detector.record_many(&Collides(caller), if caller == 31 { 6 } else { 5 });
    }
    assert_eq!(detector.pass().flagged, [Collides(31)]);
    assert!(detector.check(&Collides(30)).is_ok());
}

#[test]
fn counts_do_not_overflow() {
    let detector = Detector::new(Quota::per_minute(1))
        .capacity(1)
        .clock(Clock::manual());
    for key in [1, 1, 2, 2, 1] {
        detector.record_many(&key, u64::MAX);
        detector.pass();
    }
    let top = detector.top(10);
    assert_eq!(top.len(), 1);
    assert_eq!(top[0].at_most, u64::MAX);
}

#[test]
fn those_who_made_most_come_first() {
    let detector = Detector::new(Quota::per_minute(1_000))
        .capacity(3)
        .clock(Clock::manual());
    assert_eq!(detector.top(10), []);
    for (key, n) in [('a', 5), ('b', 9), ('c', 7)] {
        detector.record_many(&key, n);
    }
    detector.pass();
    let top = |most| -> Vec<_> {
        let top = detector.top(most).into_iter();
        top.map(|count| (count.key, count.at_least, count.at_most))
            .collect()
    };
    assert_eq!(top(2), [('b', 9, 9), ('c', 7, 7)]);
    // Takes over the counter of the smallest.
    detector.record_many(&'d', 4);
    detector.pass();
    assert_eq!(top(10), [('b', 9, 9), ('c', 7, 7), ('d', 4, 9)]);
    assert_eq!(top(0), []);
}
