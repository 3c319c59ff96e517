//! What is done to a limiter and to its model, one step after the other.

use proptest::prelude::*;
use proptest::sample::Index;
use tollgate::{Oversize, Quota, QuotaChange};

use super::any::{Cost, Pause, any_pause, cost, pause};
use super::world::World;

/// Picks one of those that are there: any, or the one at this place, which must be there.
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
    /// Tries; and if it is refused, again a nanosecond too early, and when it is due.
    TryUntil(Cost),
    /// Tries to take all that is left, and one more.
    TryRest,
    Acquire(Cost),
    Reserve(Cost),
    Poll(Which),
    Drop(Which),
    Forget(Which),
    Advance(Pause),
    Charge(Cost),
    Refund(Which),
    /// So much of the charge turns out to be needed, in quarters.
    Settle(Which, u64),
    SettleFor(Which, u64),
    SetQuota(Quota, QuotaChange),
    Close,
    /// Tries with a local handle.
    Local(Which, Cost),
    ReturnUnused(Which),
    /// A local handle is dropped, and another takes its place.
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

/// More than the burst once in a while, but not more than can be paid off.
fn payable() -> impl Strategy<Value = Cost> {
    cost().prop_filter("endless", |cost| !matches!(cost, Cost::Endless))
}

/// What asks, waits, leaves and gives back.
pub(crate) fn asking() -> impl Strategy<Value = Step> {
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
}

/// And what charges without asking, and tries of local handles.
pub(crate) fn charging() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => asking(),
        1 => payable().prop_map(Step::Charge),
        2 => (index(), 0..=5_u64).prop_map(|(which, quarters)| Step::Settle(which, quarters)),
        2 => local(),
        1 => any_pause().prop_map(Step::Advance),
    ]
}

/// And changes of the quota.
pub(crate) fn changing(quota: impl Strategy<Value = Quota>) -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => charging(),
        1 => (quota, carry()).prop_map(|(quota, carry)| Step::SetQuota(quota, carry)),
    ]
}

/// Tries; some come again at the time they were given.
pub(crate) fn trying() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => cost().prop_map(Step::Try),
        8 => cost().prop_map(Step::TryUntil),
        1 => Just(Step::TryRest),
        16 => any_pause().prop_map(Step::Advance),
    ]
}

pub(crate) fn local() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (index(), payable()).prop_map(|(which, cost)| Step::Local(which, cost)),
        1 => index().prop_map(Step::ReturnUnused),
        1 => index().prop_map(Step::Renew),
    ]
}

/// Steps; after some of them everything is looked at.
pub(crate) type Steps = Vec<(Step, bool)>;

pub(crate) fn steps(step: impl Strategy<Value = Step>) -> impl Strategy<Value = Steps> {
    prop::collection::vec((step, any::<bool>()), 1..80)
}

/// Among which it may be closed.
pub(crate) fn closing(step: impl Strategy<Value = Step>) -> impl Strategy<Value = Steps> {
    (steps(step), prop::option::of(index())).prop_map(|(mut steps, close)| {
        if let Some(when) = close {
            steps.insert(when.index(steps.len()), (Step::Close, true));
        }
        steps
    })
}

/// Looks at everything only after some of the steps: to look takes the lock, and sets right what a
/// step may have left wrong. In the end every waiter looks.
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
