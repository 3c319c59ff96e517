//! Beside a list of all calls: who is flagged has made too much, and who has made too much by more
//! than the error is flagged.

use crate::support::cases::cases;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Clock, Quota};
use tollgate_detector::Detector;

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

/// All calls, as they were made.
#[derive(Default)]
struct Calls {
    list: Vec<(u64, u8, u64)>,
    /// Up to where a key has been forgiven.
    forgiven: BTreeMap<u8, usize>,
}

impl Calls {
    /// What one made after a tick, or at it, and has not been flagged for.
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
                        // At the tick itself, they may have been counted before or after.
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
