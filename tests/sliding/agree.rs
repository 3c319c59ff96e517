//! Whatever can be done, to a limiter and to its model.

use proptest::prelude::*;
use proptest::sample::Index;
use tollgate::{Algorithm, Carry, Oversize, Quota};

use super::any::{algorithm, any_pause, cost, fine_quota, pause, quota};
use super::audit::fullest;
use super::rule::{LAST_TICK, nanos};
use super::world::{Step, World};

fn index() -> impl Strategy<Value = Index> {
    any::<Index>()
}

/// What asks, waits, leaves and gives back.
fn asking() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => cost().prop_map(Step::Try),
        6 => cost().prop_map(Step::Acquire),
        3 => cost().prop_map(Step::Reserve),
        6 => index().prop_map(Step::Poll),
        4 => index().prop_map(Step::Drop),
        1 => index().prop_map(Step::Forget),
        1 => index().prop_map(Step::Confirm),
        12 => pause().prop_map(Step::Advance),
        4 => index().prop_map(Step::Refund),
    ]
}

/// And what charges without asking.
fn charging() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => asking(),
        1 => cost().prop_map(Step::Charge),
        1 => (index(), 0..=5_u64).prop_map(|(which, quarters)| Step::Settle(which, quarters)),
        1 => any_pause().prop_map(Step::Advance),
    ]
}

fn carry() -> impl Strategy<Value = Carry> {
    prop_oneof![
        Just(Carry::Proportional),
        Just(Carry::AsIs),
        Just(Carry::Additive),
        Just(Carry::Reset),
    ]
}

fn changing(quota: impl Strategy<Value = Quota>) -> impl Strategy<Value = Step> {
    prop_oneof![
        9 => charging(),
        1 => (quota, carry()).prop_map(|(quota, carry)| Step::SetQuota(quota, carry)),
    ]
}

fn oversize() -> impl Strategy<Value = Oversize> {
    prop_oneof![2 => Just(Oversize::Refuse), 1 => Just(Oversize::Debt)]
}

fn start() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0), 1 => 0..=LAST_TICK, 1 => LAST_TICK - 200..=LAST_TICK + 3]
}

fn steps(step: impl Strategy<Value = Step>) -> impl Strategy<Value = Vec<(Step, bool)>> {
    prop::collection::vec((step, any::<bool>()), 1..80)
}

/// Looks at everything only after some of the steps: to look takes the lock, and sets right what a
/// step may have left wrong.
fn run(mut world: World, steps: Vec<(Step, bool)>) -> World {
    for (step, looks) in steps {
        world.step(step);
        if looks {
            world.compare();
        }
    }
    world.end();
    world
}

fn assert_promise(world: &World, algorithm: Algorithm, quota: Quota) {
    let Some(kept) = world.kept() else {
        return;
    };
    let fullest = fullest(&kept, nanos(quota));
    match algorithm {
        Algorithm::SlidingWindow => assert!(fullest < 2 * quota.count() || fullest == 1),
        _ => assert!(fullest <= quota.count(), "{fullest} in a period"),
    }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(250))]

    #[test]
    fn who_asks_is_told_what_the_model_says_and_the_promise_is_kept(
        algorithm in algorithm(),
        quota in quota(),
        steps in steps(asking()),
    ) {
        let world = run(World::new(algorithm, quota, Oversize::Refuse, 0), steps);
        assert_promise(&world, algorithm, quota);
    }

    #[test]
    fn debts_agree_with_the_model(
        algorithm in algorithm(),
        quota in fine_quota(),
        oversize in oversize(),
        start in start(),
        steps in steps(charging()),
    ) {
        run(World::new(algorithm, quota, oversize, start), steps);
    }

    #[test]
    fn debts_of_any_period_agree_with_the_model(
        algorithm in prop_oneof![Just(Algorithm::SlidingLog), Just(Algorithm::SlidingWindow)],
        quota in quota(),
        oversize in oversize(),
        start in start(),
        steps in steps(charging()),
    ) {
        run(World::new(algorithm, quota, oversize, start), steps);
    }

    #[test]
    fn changes_of_the_quota_agree_with_the_model(
        algorithm in algorithm(),
        quota in fine_quota(),
        oversize in oversize(),
        steps in steps(changing(fine_quota())),
        close in prop::option::of(index()),
    ) {
        let mut steps = steps;
        if let Some(when) = close {
            steps.insert(when.index(steps.len()), (Step::Close, true));
        }
        run(World::new(algorithm, quota, oversize, 0), steps);
    }
}
