//! How much is asked for, and for how long nothing happens, in relation to the quota; and random ones of
//! these, with a liking for edges.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Quota};

use super::{LARGEST_BURST, LAST_TICK};

/// The size of a quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// What goes at once at most.
    pub(crate) most: u64,
    /// So many come back in a period.
    pub(crate) count: u64,
    /// In nanoseconds.
    pub(crate) period: u64,
}

impl Scale {
    /// The same, or, if there is no limit, that of a hundred a second: what is asked for can be paid off
    /// after the limit is set.
    pub(crate) fn finite(self) -> Self {
        if self.most < u64::MAX {
            return self;
        }
        Self {
            most: 100,
            count: 100,
            period: 1_000_000_000,
        }
    }

    /// About how long so many tokens take.
    fn nanos_of(self, tokens: u64) -> u64 {
        share(self.period, tokens, self.count)
    }
}

/// So many `of` parts of it, rounded down.
fn share(whole: u64, parts: u64, of: u64) -> u64 {
    let share = u128::from(whole) * u128::from(parts) / u128::from(of);
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// How much to ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    Few(u64),
    /// In 64ths of the most.
    Part(u64),
    AllBut(u64),
    TooMuchBy(u64),
    /// So many times the most, and one.
    Times(u64),
    Endless,
}

impl Cost {
    pub(crate) fn of(self, scale: Scale) -> u64 {
        let most = scale.most;
        match self {
            Self::Few(few) => few,
            Self::Part(part) => share(most, part, 64),
            Self::AllBut(few) => most.saturating_sub(few),
            Self::TooMuchBy(few) => most.saturating_add(few),
            Self::Times(times) => most.saturating_mul(times).saturating_add(1),
            Self::Endless => u64::MAX,
        }
    }
}

/// For how long nothing happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pause {
    Nanos(u64),
    /// In 16ths of the time of a token, and some nanoseconds more.
    Token(u64, u64),
    /// In 16ths of the time in which the most comes back, and some nanoseconds more.
    Part(u64, u64),
    /// So many times that time.
    Times(u64),
    /// Until so long before the end of time, or past it.
    NearTheEnd(u64),
}

impl Pause {
    pub(crate) fn of(self, scale: Scale, now: u64) -> u64 {
        let part = |tokens, parts| share(scale.nanos_of(tokens), parts, 16);
        match self {
            Self::Nanos(nanos) => nanos,
            Self::Token(parts, more) => part(1, parts).saturating_add(more),
            Self::Part(parts, more) => part(scale.most, parts).saturating_add(more),
            Self::Times(times) => scale.nanos_of(scale.most).saturating_mul(times),
            Self::NearTheEnd(before) => (LAST_TICK + 10).saturating_sub(now.saturating_add(before)),
        }
    }
}

/// Whatever is accepted: from one in nine years to sixteen a nanosecond, and any burst.
pub(crate) fn quota() -> impl Strategy<Value = Quota> {
    let period = prop_oneof![
        4 => 1..=100_u64,
        2 => Just(1_000_000_000),
        2 => 1..=1_u64 << 58,
        1 => 1..=u64::MAX,
        1 => (0..64_u32).prop_map(|shift| 1_u64 << shift),
        1 => Just(u64::MAX),
    ];
    let count = prop_oneof![4 => 1..=100_u64, 2 => 1..=u64::MAX, 1 => Just(u64::MAX)];
    let burst = prop_oneof![4 => 1..=5_u64, 2 => 1..=u64::MAX, 1 => Just(u64::MAX)];
    (period, count, burst).prop_map(|(period, count, burst)| {
        // At least one in 2^58 nanoseconds, at most sixteen in one.
        let largest = period.saturating_mul(16);
        let count = count.max(period.div_ceil(1 << 58)).min(largest);
        let most = if count / 2 >= period {
            u128::from(LARGEST_BURST)
        } else {
            (u128::from(count) << 58) / u128::from(period)
        };
        let burst = u64::try_from(u128::from(burst).min(most)).expect("at most the burst");
        Quota::try_new(count, Duration::from_nanos(period), burst).expect("within the limits")
    })
}

/// Quotas whose burst comes back within some days, for long runs that end before time does.
pub(crate) fn modest_quota() -> impl Strategy<Value = Quota> {
    let fixed = |count, period| (Just(count), Just(period));
    let rate = prop_oneof![
        3 => (1..=20_u64, 1..=20_u64).prop_map(|(a, b)| (a.min(b), a.max(b))),
        1 => fixed(700_000_000, 1_000_000_000),
        1 => fixed(3, 10),
        1 => fixed(3, 1_000_000_000),
        1 => fixed(1, 3_600_000_000_000),
        1 => fixed(1_000, 1_000_000_000),
        1 => fixed(1, 1),
        1 => fixed(1_250_000_000, 1_000_000_000),
        1 => (1..=20_u64, 0..20_u64).prop_map(|(period, more)| (period + more % period, period)),
        1 => (2..16_u64, 1..=20_u64, 0..20_u64)
            .prop_map(|(whole, period, more)| (whole * period + more % period, period)),
        2 => (1..=1_u64 << 30, 1..=1_u64 << 40).prop_map(|(a, b)| (a.min(b), a.max(b))),
    ];
    let burst = prop_oneof![3 => 1..=5_u64, 1 => 1..=100_u64];
    (rate, burst).prop_map(|((count, period), burst)| {
        Quota::try_new(count, Duration::from_nanos(period), burst).expect("within the limits")
    })
}

/// One of these quotas, or none.
pub(crate) fn or_unlimited(quota: impl Strategy<Value = Quota>) -> impl Strategy<Value = Quota> {
    prop_oneof![3 => quota, 1 => Just(Quota::UNLIMITED)]
}

/// Quotas, and the rules that go by what is owed; each fits.
pub(crate) fn rule_and(
    quota: impl Strategy<Value = Quota>,
) -> impl Strategy<Value = (Algorithm, Quota)> {
    let algorithm = prop::sample::select(by_word(true));
    (algorithm, any::<bool>(), 1..40_u64, quota).prop_map(|(algorithm, burst, parts, quota)| {
        let parts = parts.min(quota.count() - 1);
        let parts = u32::try_from(parts).expect("not many");
        let algorithm = match algorithm {
            Algorithm::SubInterval { .. } => Algorithm::SubInterval { parts },
            other => other,
        };
        let quotas = [quota, without_burst(quota)];
        let fits = |quota: &Quota| algorithm.check(*quota).is_ok();
        let first = usize::from(!burst);
        match [quotas[first], quotas[1 - first]].into_iter().find(fits) {
            Some(quota) => (algorithm, quota),
            None => (Algorithm::Gcra, quota),
        }
    })
}

/// The algorithms whose whole state is a word, or the others.
fn by_word(keeps_a_word: bool) -> Vec<Algorithm> {
    let all = Algorithm::all().iter().copied();
    all.filter(|it| it.keeps_a_word() == keeps_a_word).collect()
}

/// A count of a few, in any period: each of them is remembered.
pub(crate) fn small_quota() -> impl Strategy<Value = Quota> {
    let period = prop_oneof![
        12 => 1..=100_u64,
        1 => 1..=1_u64 << 29,
        2 => Just(1_000_000_000_u64),
        1 => Just(3_600_000_000_000_u64),
        2 => 1..=1_u64 << 58,
        1 => Just(1_u64 << 58),
    ];
    let count = prop_oneof![2 => Just(1_u64), 6 => 2..=9_u64, 1 => 10..=70_u64];
    (count, period).prop_map(|(count, period)| {
        let period = Duration::from_nanos(period.max(count));
        Quota::new(count, period)
    })
}

/// Counts whose products with the period need more than 64 bits.
fn large_quota() -> impl Strategy<Value = Quota> {
    let more = prop_oneof![0..1000_u64, 0..1_u64 << 50];
    (0..4_u64, more).prop_map(|(less, more)| {
        let count = (1 << 30) + 1 - less;
        Quota::new(count, Duration::from_nanos(count + more))
    })
}

/// Small quotas, and the rules that remember.
pub(crate) fn sliding() -> impl Strategy<Value = (Algorithm, Quota)> {
    (prop::sample::select(by_word(false)), small_quota())
}

/// Any rule, with a quota for long runs; a window also counts very many.
pub(crate) fn chosen() -> impl Strategy<Value = (Algorithm, Quota)> {
    let large = large_quota().prop_map(|quota| (Algorithm::SlidingWindow, quota));
    prop_oneof![8 => rule_and(modest_quota()), 8 => sliding(), 1 => large]
}

fn without_burst(quota: Quota) -> Quota {
    Quota::new(quota.count(), quota.period())
}

pub(crate) fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        5 => Just(Cost::Few(1)),
        7 => (0..4_u64).prop_map(Cost::Few),
        6 => (0..=64_u64).prop_map(Cost::Part),
        3 => (0..3_u64).prop_map(Cost::AllBut),
        1 => (1..4_u64).prop_map(Cost::TooMuchBy),
        1 => (1..4_u64).prop_map(Cost::Times),
        1 => Just(Cost::Endless),
    ]
}

/// Short ones, mostly.
pub(crate) fn pause() -> impl Strategy<Value = Pause> {
    prop_oneof![
        4 => (0..3_u64).prop_map(Pause::Nanos),
        6 => (0..32_u64, 0..2_u64).prop_map(|(part, more)| Pause::Token(part, more)),
        5 => (0..32_u64, 0..2_u64).prop_map(|(part, more)| Pause::Part(part, more)),
        1 => (1..30_u64).prop_map(Pause::Times),
    ]
}

/// Also such that last for years.
pub(crate) fn any_pause() -> impl Strategy<Value = Pause> {
    prop_oneof![
        20 => pause(),
        1 => (0..=LAST_TICK).prop_map(Pause::Nanos),
        1 => (0..40_u64).prop_map(Pause::NearTheEnd),
    ]
}

/// When it begins, often at the end of time.
pub(crate) fn start() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 2 => 0..=LAST_TICK, 1 => LAST_TICK - 200..=LAST_TICK + 100]
}
