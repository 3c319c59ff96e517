//! Tests the bound of the promise over all pairs of grants, and the rate of a queue.

use std::time::Duration;

use proptest::prelude::*;

use super::super::choice::Algorithm;
use super::*;
use crate::quota::Quota;

const SECOND: u64 = 1_000_000_000;

/// Counts and periods: tokens of a whole number of nanoseconds and of none, up to 16 in a
/// nanosecond.
const RATES: [(u64, u64); 12] = [
    (1, 1),
    (1000, SECOND),
    (3, SECOND),
    (7, SECOND),
    (700_000_000, SECOND),
    (999_999_999, SECOND),
    (3, 10),
    (10, 9),
    (5, 2),
    (31, 2),
    (16, 1),
    (12_500_000_000, SECOND),
];

fn rule((count, period): (u64, u64), burst: u64) -> Gcra {
    let quota = Quota::new(count, Duration::from_nanos(period)).burst(burst);
    Gcra::new(&Algorithm::Gcra.promise(quota), Origin::NONE)
}

/// Checks that the charges from each one to each later one are at most the burst, and the rate
/// times their distance and one nanosecond. A charge is its tick and its cost.
fn assert_promise((count, period): (u64, u64), burst: u64, charges: &[(u64, u64)]) {
    let (count, period) = (u128::from(count), u128::from(period));
    for (first, (from, _)) in charges.iter().enumerate() {
        let mut total = 0;
        for (to, cost) in &charges[first..] {
            total += u128::from(*cost);
            let time = u128::from(to - from + 1);
            assert!(
                total * period <= u128::from(burst) * period + count * time,
                "{count} in {period} ns, burst {burst}: {total} from {from} to {to}, {charges:?}"
            );
        }
    }
}

/// A grant at the due tick begins within the nanosecond that ends there, and no other does.
#[test]
fn grant_that_is_a_nanosecond_late_begins_at_its_tick() {
    for (late, next) in [(0, 666_666_667), (1, 666_666_668), (2, 666_666_669)] {
        let mut rule = rule((3, SECOND), 1);
        rule.charge(Tick::from_nanos(0), 1);
        let due = rule.due(0, 1).as_nanos();
        assert_eq!(due, 333_333_334);
        rule.grant(Tick::from_nanos(due + late), 1);
        assert_eq!(rule.due(0, 1).as_nanos(), next, "{late} ns late");
    }
}

#[test]
fn grant_of_a_queue_that_is_served_on_time_keeps_the_rate() {
    for (count, period) in RATES {
        for burst in 1..=10 {
            let mut rule = rule((count, period), burst);
            let begin = 3 * period;
            rule.charge(Tick::from_nanos(begin), burst);
            for number in 1..=300_u64 {
                let due = rule.due(0, 1);
                let exact = (u128::from(number) * u128::from(period)).div_ceil(count.into());
                assert_eq!(u128::from(due.as_nanos() - begin), exact);
                rule.grant(due, 1);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn grant_of_late_waiters_keeps_the_promise(
        rate in prop::sample::select(&RATES[..]),
        burst in 1..=10_u64,
        start in prop_oneof![0..=3_u64, 0..10 * SECOND],
        calls in prop::collection::vec((
            any::<bool>(),
            0..10_u64,
            prop_oneof![4 => 0..=2_u64, 1 => 0..20_u64, 1 => 0..SECOND],
        ), 1..60),
    ) {
        let (mut rule, mut now) = (rule(rate, burst), start);
        let mut charges = Vec::new();
        for (tries, cost, late) in calls {
            let cost = 1 + cost % burst;
            now = now.max(rule.due(0, cost).as_nanos()) + late;
            let at = Tick::from_nanos(now);
            if tries {
                rule.charge(at, cost);
            } else {
                rule.grant(at, cost);
            }
            charges.push((now, cost));
        }
        assert_promise(rate, burst, &charges);
    }
}
