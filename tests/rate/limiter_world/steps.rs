//! What is done to a limiter and to its model, one step after the other.

use proptest::prelude::*;
use proptest::sample::Index;
use tollgate::{Oversize, Quota, QuotaChange};

use super::amounts::{Cost, Pause};
use super::model::Model;
use super::world::World;

/// What happens next. An index picks one of those that are there.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Try(Cost),
    Acquire(Cost),
    Reserve(Cost),
    Poll(Index),
    Drop(Index),
    Forget(Index),
    Advance(Pause),
    Charge(Cost),
    Refund(Index),
    /// So much of the charge turns out to be needed, in quarters.
    Settle(Index, u64),
    SetQuota(Quota, QuotaChange),
    Close,
}

pub(crate) fn index() -> impl Strategy<Value = Index> {
    any::<Index>()
}

pub(crate) fn carry() -> impl Strategy<Value = QuotaChange> {
    prop_oneof![
        Just(QuotaChange::Proportional),
        Just(QuotaChange::KeepSpent),
    ]
}

pub(crate) fn oversize() -> impl Strategy<Value = Oversize> {
    prop_oneof![2 => Just(Oversize::Refuse), 1 => Just(Oversize::Overdraft)]
}

/// Steps, after some of which everything is looked at.
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
/// step may have left wrong. In the end everybody looks.
pub(crate) fn run<M: Model>(mut world: World<M>, steps: Steps) -> M {
    for (step, looks) in steps {
        world.step(step);
        if looks {
            world.compare();
        }
    }
    world.end()
}
