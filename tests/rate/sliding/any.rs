//! Random quotas, costs and pauses, with a liking for edges.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Quota};

use crate::limiter_world::amounts::{Cost, Pause};

pub(crate) fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![Just(Algorithm::SlidingLog), Just(Algorithm::SlidingWindow),]
}

fn quota_of(count: u64, period: u64) -> Quota {
    let period = period.max(count);
    Quota::new(count, Duration::from_nanos(period))
}

/// A count of a few, in any period.
pub(crate) fn quota() -> impl Strategy<Value = Quota> {
    let period = prop_oneof![
        6 => 1..=100_u64,
        2 => Just(1_000_000_000_u64),
        1 => Just(3_600_000_000_000_u64),
        2 => 1..=1_u64 << 58,
        1 => Just(1_u64 << 58),
    ];
    let count = prop_oneof![2 => Just(1_u64), 6 => 2..=9_u64, 1 => 10..=70_u64];
    (count, period).prop_map(|(count, period)| quota_of(count, period))
}

/// As [`quota`], with a period of at most half a second.
pub(crate) fn fine_quota() -> impl Strategy<Value = Quota> {
    let period = prop_oneof![6 => 1..=100_u64, 1 => 1..=1_u64 << 29, 1 => Just(1_u64 << 29)];
    let count = prop_oneof![2 => Just(1_u64), 6 => 2..=9_u64, 1 => 10..=70_u64];
    (count, period).prop_map(|(count, period)| quota_of(count, period))
}

pub(crate) fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        10 => Just(Cost::Few(1)),
        6 => (0..4_u64).prop_map(Cost::Few),
        3 => (0..=8_u64).prop_map(|part| Cost::Part(8 * part)),
        2 => (0..3_u64).prop_map(Cost::AllBut),
        1 => (1..4_u64).prop_map(Cost::TooMuchBy),
        1 => (1..4_u64).prop_map(Cost::Times),
    ]
}

pub(crate) fn pause() -> impl Strategy<Value = Pause> {
    prop_oneof![
        4 => (0..3_u64).prop_map(Pause::Nanos),
        10 => (0..20_u64, 0..2_u64).prop_map(|(part, more)| Pause::Part(part, more)),
        1 => (1..30_u64).prop_map(Pause::Times),
    ]
}

pub(crate) fn any_pause() -> impl Strategy<Value = Pause> {
    prop_oneof![30 => pause(), 1 => (0..40_u64).prop_map(Pause::NearTheEnd)]
}
