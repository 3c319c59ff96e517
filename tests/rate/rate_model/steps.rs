//! The steps on a limiter and its model: costs and pauses in relation to the quota. Also random steps, with a
//! preference for edges.
//!
//! Nested `prop_oneof!` are boxed: an unboxed one holds the values of all its alternatives, and is moved several times.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use tollgate::rate::{Oversize, QuotaChange};
use tollgate::{Algorithm, Quota};

use super::LAST_TICK;
use super::world::World;

/// The size of a quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The largest single call.
    pub(crate) most: u64,
    /// The refill of a period.
    pub(crate) count: u64,
    /// In nanoseconds.
    pub(crate) period: u64,
}

impl Scale {
    /// Returns the same, or, if there is no limit, the scale of a hundred a second: costs can be paid
    /// off after the limit is set.
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

    /// Returns roughly how long this many tokens take.
    fn nanos_of(self, tokens: u64) -> u64 {
        share(self.period, tokens, self.count)
    }
}

/// Returns this many `of` parts of it, rounded down.
fn share(whole: u64, parts: u64, of: u64) -> u64 {
    let share = u128::from(whole) * u128::from(parts) / u128::from(of);
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// A cost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    Few(u64),
    /// In 64ths of the most.
    Part(u64),
    AllBut(u64),
    TooMuchBy(u64),
    /// This multiple of the most, plus one.
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

/// A pause.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pause {
    Nanos(u64),
    /// In 16ths of the time of a token, plus some nanoseconds.
    Token(u64, u64),
    /// In 16ths of the time in which the most comes back, plus some nanoseconds.
    Part(u64, u64),
    /// This multiple of that time.
    Times(u64),
    /// Until this long before the end of time, or past it.
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

/// Draws quotas whose burst comes back within some days, for long runs that end before time does.
pub(crate) fn modest_quota() -> BoxedStrategy<Quota> {
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
    (rate, burst)
        .prop_map(|((count, period), burst)| {
            Quota::try_new(count, Duration::from_nanos(period), burst).expect("within the limits")
        })
        .boxed()
}

/// Draws one of these quotas, or none.
pub(crate) fn or_unlimited(quota: BoxedStrategy<Quota>) -> impl Strategy<Value = Quota> {
    prop_oneof![3 => quota, 1 => Just(Quota::UNLIMITED)]
}

/// Draws quotas, and the rules that keep a debt; each fits.
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

/// Returns the algorithms whose whole state is a word, or the others.
fn by_word(keeps_a_word: bool) -> Vec<Algorithm> {
    let all = Algorithm::all().iter().copied();
    all.filter(|it| it.keeps_a_word() == keeps_a_word).collect()
}

/// Draws a count of a few, in any period: each of them is remembered.
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

/// Draws counts whose products with the period need more than 64 bits.
fn large_quota() -> impl Strategy<Value = Quota> {
    let more = prop_oneof![0..1000_u64, 0..1_u64 << 50];
    (0..4_u64, more).prop_map(|(less, more)| {
        let count = (1 << 30) + 1 - less;
        Quota::new(count, Duration::from_nanos(count + more))
    })
}

/// Draws small quotas, and the rules that remember.
pub(crate) fn sliding() -> impl Strategy<Value = (Algorithm, Quota)> {
    (prop::sample::select(by_word(false)), small_quota())
}

/// Draws any rule, with a quota for long runs; a window also counts very many.
pub(crate) fn chosen() -> impl Strategy<Value = (Algorithm, Quota)> {
    let large = large_quota().prop_map(|quota| (Algorithm::SlidingWindow, quota));
    prop_oneof![8 => rule_and(modest_quota()), 8 => sliding(), 1 => large]
}

fn without_burst(quota: Quota) -> Quota {
    Quota::new(quota.count(), quota.period())
}

pub(crate) fn cost() -> BoxedStrategy<Cost> {
    prop_oneof![
        5 => Just(Cost::Few(1)),
        7 => (0..4_u64).prop_map(Cost::Few),
        6 => (0..=64_u64).prop_map(Cost::Part),
        3 => (0..3_u64).prop_map(Cost::AllBut),
        1 => (1..4_u64).prop_map(Cost::TooMuchBy),
        1 => (1..4_u64).prop_map(Cost::Times),
        1 => Just(Cost::Endless),
    ]
    .boxed()
}

/// Draws pauses, mostly short ones.
pub(crate) fn pause() -> BoxedStrategy<Pause> {
    prop_oneof![
        4 => (0..3_u64).prop_map(Pause::Nanos),
        6 => (0..32_u64, 0..2_u64).prop_map(|(part, more)| Pause::Token(part, more)),
        5 => (0..32_u64, 0..2_u64).prop_map(|(part, more)| Pause::Part(part, more)),
        1 => (1..30_u64).prop_map(Pause::Times),
    ]
    .boxed()
}

/// Draws pauses, some of which last for years.
pub(crate) fn any_pause() -> BoxedStrategy<Pause> {
    prop_oneof![
        20 => pause(),
        1 => (0..=LAST_TICK).prop_map(Pause::Nanos),
        1 => (0..40_u64).prop_map(Pause::NearTheEnd),
    ]
    .boxed()
}

/// Draws the beginning, often at the end of time.
pub(crate) fn start() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 2 => 0..=LAST_TICK, 1 => LAST_TICK - 200..=LAST_TICK + 100]
}

/// Picks an item: any, or the one at this position, which must exist.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    Any(Index),
    Exactly(usize),
}

impl Which {
    pub(crate) fn index(self, len: usize) -> usize {
        match self {
            Self::Any(index) => index.index(len),
            Self::Exactly(place) => place,
        }
    }

    pub(crate) fn take<T>(self, from: &mut Vec<T>) -> Option<T> {
        let none = from.is_empty() && matches!(self, Self::Any(_));
        (!none).then(|| from.remove(self.index(from.len())))
    }
}

/// What happens next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Try(Cost),
    /// Tries; after a refusal, tries again a nanosecond too early, and when it is due.
    TryUntil(Cost),
    /// Tries to take the whole rest, and one more.
    TryRest,
    Acquire(Cost),
    Reserve(Cost),
    Poll(Which),
    Drop(Which),
    Forget(Which),
    Advance(Pause),
    Charge(Cost),
    Refund(Which),
    /// Settles the charge: this many quarters were needed.
    Settle(Which, u64),
    SettleFor(Which, u64),
    SetQuota(Quota, QuotaChange),
    Close,
    /// Tries with a local handle.
    Local(Which, Cost),
    ReturnUnused(Which),
    /// Drops a local handle, and puts another in its place.
    Renew(Which),
}

pub(crate) fn index() -> impl Strategy<Value = Which> {
    any::<Index>().prop_map(Which::Any)
}

fn carry() -> impl Strategy<Value = QuotaChange> {
    prop_oneof![
        Just(QuotaChange::Proportional),
        Just(QuotaChange::KeepSpent),
    ]
}

pub(crate) fn oversize() -> impl Strategy<Value = Oversize> {
    prop_oneof![2 => Just(Oversize::Refuse), 1 => Just(Oversize::Overdraft)]
}

/// Draws costs, now and then above the burst, but payable.
fn payable() -> impl Strategy<Value = Cost> {
    cost().prop_filter("endless", |cost| !matches!(cost, Cost::Endless))
}

/// Draws steps that ask, wait, leave and give back.
pub(crate) fn asking() -> BoxedStrategy<Step> {
    prop_oneof![
        5 => payable().prop_map(Step::Try),
        1 => payable().prop_map(Step::TryUntil),
        8 => payable().prop_map(Step::Acquire),
        3 => payable().prop_map(Step::Reserve),
        6 => index().prop_map(Step::Poll),
        4 => index().prop_map(Step::Drop),
        1 => index().prop_map(Step::Forget),
        11 => pause().prop_map(Step::Advance),
        4 => index().prop_map(Step::Refund),
    ]
    .boxed()
}

/// Adds steps that charge without asking, and tries of local handles.
pub(crate) fn charging() -> BoxedStrategy<Step> {
    prop_oneof![
        20 => asking(),
        1 => payable().prop_map(Step::Charge),
        2 => (index(), 0..=5_u64).prop_map(|(which, quarters)| Step::Settle(which, quarters)),
        2 => local(),
        1 => any_pause().prop_map(Step::Advance),
    ]
    .boxed()
}

/// Adds changes of the quota.
pub(crate) fn changing(
    quota: impl Strategy<Value = Quota> + 'static,
) -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => charging(),
        1 => (quota, carry()).prop_map(|(quota, carry)| Step::SetQuota(quota, carry)),
    ]
}

/// Draws tries; some come again at the retry time.
pub(crate) fn trying() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => cost().prop_map(Step::Try),
        8 => cost().prop_map(Step::TryUntil),
        1 => Just(Step::TryRest),
        16 => any_pause().prop_map(Step::Advance),
    ]
}

pub(crate) fn local() -> BoxedStrategy<Step> {
    prop_oneof![
        8 => (index(), payable()).prop_map(|(which, cost)| Step::Local(which, cost)),
        1 => index().prop_map(Step::ReturnUnused),
        1 => index().prop_map(Step::Renew),
    ]
    .boxed()
}

/// Steps; after some of them the whole state is compared.
pub(crate) type Steps = Vec<(Step, bool)>;

pub(crate) fn steps(step: impl Strategy<Value = Step> + 'static) -> impl Strategy<Value = Steps> {
    prop::collection::vec((step.boxed(), any::<bool>()), 1..80)
}

/// Adds a close to the steps.
pub(crate) fn closing(step: impl Strategy<Value = Step> + 'static) -> impl Strategy<Value = Steps> {
    (steps(step), prop::option::of(index())).prop_map(|(mut steps, close)| {
        if let Some(when) = close {
            steps.insert(when.index(steps.len()), (Step::Close, true));
        }
        steps
    })
}

/// Runs the steps, and compares the state only after some of them: the comparison takes the lock,
/// and repairs what a step may have left wrong. At the end every waiter is polled.
pub(crate) fn run(mut world: World, steps: Steps) -> World {
    for (step, looks) in steps {
        world.step(step);
        if looks {
            world.compare();
        }
    }
    world.poll_all();
    world
}
