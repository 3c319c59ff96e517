//! The semaphore against the most obvious model of it: a vector of waiters and two integers.
//!
//! Random steps are done to both, and after each one everything that can be seen is compared: who
//! was let in or refused and with what, who was woken and how often, what is free, who waits.

mod naive;
mod scenarios;
mod subject;
mod world;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use tollgate::Semaphore;

use self::naive::Ends;
use self::subject::Subject;
use self::world::{Step, World};
use crate::support::cases::cases;
use crate::support::scenarios::Names;

fn index() -> impl Strategy<Value = usize> {
    0..1000_usize
}

/// Small numbers, so that steps run into each other.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..5_u32).prop_map(Step::Try),
        8 => (0..5_u32).prop_map(|cost| Step::Acquire(cost, Ends::default())),
        1 => (1..40_usize, 1..3_u32).prop_map(|(count, cost)| Step::Crowd(count, cost)),
        6 => index().prop_map(Step::Poll),
        5 => index().prop_map(Step::Drop),
        1 => Just(Step::DropHalf),
        6 => index().prop_map(Step::Release),
        1 => Just(Step::ReleaseAll),
        2 => (index(), 0..4_usize).prop_map(|(which, count)| Step::Split(which, count)),
        2 => (index(), index()).prop_map(|(into, from)| Step::Merge(into, from)),
        1 => index().prop_map(Step::Forget),
        2 => (0..6_usize).prop_map(Step::SetPermits),
        1 => (0..3_usize).prop_map(Step::AddPermits),
        1 => (0..3_usize).prop_map(Step::ForgetPermits),
        1 => (5..60_usize).prop_map(Step::SetPermits),
        1 => Just(Step::RejectImpossible),
        2 => Just(Step::WaitIdle(Ends::default())),
        2 => index().prop_map(Step::PollIdle),
        1 => index().prop_map(Step::DropIdle),
    ]
}

/// Mostly unbounded, and mostly open to the end.
fn steps() -> impl Strategy<Value = (usize, Option<usize>, Vec<Step>)> {
    let bound = prop_oneof![3 => Just(None), 1 => (0..4_usize).prop_map(Some)];
    let close = prop_oneof![2 => Just(None), 1 => any::<Index>().prop_map(Some)];
    let steps = prop::collection::vec(step(), 1..80);
    (0..5_usize, bound, steps, close).prop_map(|(limit, bound, mut steps, close)| {
        if let Some(when) = close {
            steps.insert(when.index(steps.len()), Step::Close);
        }
        (limit, bound, steps)
    })
}

/// Does the steps to both, compares after each, and has everybody leave in the end.
fn run<S: Subject>(
    (limit, bound): (usize, Option<usize>),
    names: Names,
    steps: impl IntoIterator<Item = Step>,
) -> Result<(), TestCaseError> {
    let mut world = World::<S>::new(limit, bound, names);
    for step in steps {
        world.step(step)?;
        world.compare()?;
    }
    world.leave()
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn agrees_with_a_vector_of_waiters((limit, bound, steps) in steps()) {
        run::<&Semaphore>((limit, bound), Names::AtRandom, steps)?;
    }
}
