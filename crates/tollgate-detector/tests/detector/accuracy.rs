//! Tests which callers among a great many are flagged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Clock, Quota};
use tollgate_detector::Detector;

use crate::support::cases::cases;
use crate::support::random::Random;

const SECOND: Duration = Duration::from_secs(1);

/// One in a hundred calls comes from one caller; each other call comes from a different caller.
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
    // At 200 calls per second, the caller exceeds 2,000 after eleven seconds, and again after
    // eleven more.
    assert_eq!(flagged, [HEAVY; 4]);
    assert_eq!(detector.flagged(), [HEAVY]);
    assert!(lost > 900_000, "with so small a buffer, {lost}");
    assert!(detector.check(&HEAVY).is_err());
    assert_eq!(detector.gates(), 1);
    for innocent in [0, 1, 999_999, 12_345] {
        assert!(detector.check(&innocent).is_ok());
    }
}

/// The counters change owners constantly, and estimates rise far above the threshold.
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

/// Keys of the same length, so the length does not distinguish them.
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
    // Takes over the counter with the smallest count.
    detector.record_many(&'d', 4);
    detector.pass();
    assert_eq!(top(10), [('b', 9, 9), ('c', 7, 7), ('d', 4, 9)]);
    assert_eq!(top(0), []);
}

// Compares the detector with a list of all calls: a flagged caller has exceeded the threshold, and
// a caller that has exceeded it by more than the error is flagged.

const PERIOD: u64 = 40;
const THRESHOLD: u64 = 12;

#[derive(Clone, Debug)]
enum Step {
    Record(u8, u64),
    Advance(u64),
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    let key = (0_u8..30, 0_u8..30, 0_u8..30).prop_map(|(a, b, c)| a.min(b).min(c));
    prop_oneof![
        12 => (key, 1_u64..4).prop_map(|(key, n)| Step::Record(key, n)),
        2 => (0_u64..7).prop_map(Step::Advance),
        1 => Just(Step::Pass),
    ]
}

/// All calls, in their order.
#[derive(Default)]
struct Calls {
    list: Vec<(u64, u8, u64)>,
    /// The position in the list up to which the calls of a key were forgiven.
    forgiven: BTreeMap<u8, usize>,
}

impl Calls {
    /// Returns the amount of the calls of a key at or after a tick that have not led to a flag.
    fn made(&self, key: u8, since: u64) -> u64 {
        let from = self.forgiven.get(&key).copied().unwrap_or(0);
        let calls = self.list[from..].iter();
        calls
            .filter(|call| call.1 == key && call.0 >= since)
            .map(|call| call.2)
            .sum()
    }

    fn keys(&self) -> BTreeSet<u8> {
        self.list.iter().map(|call| call.1).collect()
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn flagged_is_who_has_made_too_much(
        capacity in 1_usize..12,
        buffer in 1_usize..24,
        steps in prop::collection::vec(step(), 0..400),
    ) {
        let clock = Clock::manual();
        let detector = Detector::new(Quota::new(THRESHOLD, Duration::from_nanos(PERIOD)))
            .capacity(capacity)
            .buffer(buffer)
            .penalty(Duration::from_nanos(1))
            .clock(&clock);
        detector.pass();
        let (mut calls, mut recorded, mut told) = (Calls::default(), 0, 0);
        for step in steps {
            match step {
                Step::Record(key, n) => {
                    detector.record_many(&key, n);
                    calls.list.push((clock.now().as_nanos(), key, n));
                    recorded += n;
                }
                Step::Advance(nanos) => clock.advance(Duration::from_nanos(nanos)),
                Step::Pass => {
                    let pass = detector.pass();
                    told += pass.counted + pass.lost;
                    prop_assert_eq!(told, recorded);
                    let now = clock.now().as_nanos();
                    let covered = u64::try_from(pass.covered.as_nanos()).unwrap();
                    prop_assert!(covered <= PERIOD);
                    for &key in &pass.flagged {
                        prop_assert!(calls.made(key, now.saturating_sub(PERIOD)) > THRESHOLD);
                    }
                    if pass.passed_over == 0 {
                        // Calls at the tick itself may have been counted before or after it.
                        for key in calls.keys() {
                            let over = calls.made(key, now - covered + 1) > THRESHOLD + pass.error;
                            prop_assert!(!over || pass.flagged.contains(&key));
                        }
                    }
                    for count in detector.top(100) {
                        let most = calls.made(count.key, now.saturating_sub(PERIOD));
                        if pass.flagged.contains(&count.key) {
                            prop_assert_eq!(count.at_least, 0);
                        } else {
                            prop_assert!(count.at_least <= most);
                            prop_assert!(count.at_most >= calls.made(count.key, now - covered + 1));
                        }
                    }
                    for key in pass.flagged {
                        calls.forgiven.insert(key, calls.list.len());
                    }
                }
            }
        }
    }
}

// Lost records, and their report.

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
    // All lost records may belong to one caller.
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
