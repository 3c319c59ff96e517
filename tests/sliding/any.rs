//! Random quotas, costs and pauses, with a liking for edges.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Quota};

use super::rule::{LAST_TICK, Rule};

pub(crate) const LOGS: [Algorithm; 2] = [Algorithm::SlidingLog, Algorithm::CompactLog];

pub(crate) fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::SlidingLog),
        Just(Algorithm::CompactLog),
        Just(Algorithm::SlidingWindow),
    ]
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

/// As [`quota`], with a period of which the short form keeps every nanosecond.
pub(crate) fn fine_quota() -> impl Strategy<Value = Quota> {
    let period = prop_oneof![6 => 1..=100_u64, 1 => 1..=1_u64 << 29, 1 => Just(1_u64 << 29)];
    let count = prop_oneof![2 => Just(1_u64), 6 => 2..=9_u64, 1 => 10..=70_u64];
    (count, period).prop_map(|(count, period)| quota_of(count, period))
}

/// How much to ask for, in relation to the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    Few(u64),
    /// In 8ths of the limit.
    Part(u64),
    AllBut(u64),
    TooMuchBy(u64),
    /// So many times the limit, and one.
    Times(u64),
}

impl Cost {
    pub(crate) fn of(self, rule: &Rule) -> u64 {
        match self {
            Self::Few(few) => few,
            Self::Part(part) => rule.most * part / 8,
            Self::AllBut(few) => rule.most.saturating_sub(few),
            Self::TooMuchBy(few) => rule.most + few,
            Self::Times(times) => rule.most * times + 1,
        }
    }
}

pub(crate) fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        10 => Just(Cost::Few(1)),
        6 => (0..4_u64).prop_map(Cost::Few),
        3 => (0..=8_u64).prop_map(Cost::Part),
        2 => (0..3_u64).prop_map(Cost::AllBut),
        1 => (1..4_u64).prop_map(Cost::TooMuchBy),
        1 => (1..4_u64).prop_map(Cost::Times),
    ]
}

/// For how long nothing happens, in relation to the quota.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pause {
    Nanos(u64),
    /// In 16ths of the period, and some nanoseconds more.
    Part(u64, u64),
    /// So many periods.
    Periods(u64),
    /// Until so long before the end of time, or past it.
    NearTheEnd(u64),
}

impl Pause {
    pub(crate) fn of(self, rule: &Rule, now: u64) -> u64 {
        match self {
            Self::Nanos(nanos) => nanos,
            Self::Part(parts, more) => {
                let nanos = u128::from(rule.period) * u128::from(parts) / 16;
                u64::try_from(nanos)
                    .unwrap_or(u64::MAX)
                    .saturating_add(more)
            }
            Self::Periods(periods) => rule.period.saturating_mul(periods),
            Self::NearTheEnd(before) => (LAST_TICK + 10).saturating_sub(now.saturating_add(before)),
        }
    }
}

pub(crate) fn pause() -> impl Strategy<Value = Pause> {
    prop_oneof![
        4 => (0..3_u64).prop_map(Pause::Nanos),
        10 => (0..20_u64, 0..2_u64).prop_map(|(part, more)| Pause::Part(part, more)),
        1 => (1..30_u64).prop_map(Pause::Periods),
    ]
}

pub(crate) fn any_pause() -> impl Strategy<Value = Pause> {
    prop_oneof![30 => pause(), 1 => (0..40_u64).prop_map(Pause::NearTheEnd)]
}
