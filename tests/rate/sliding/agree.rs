//! Whatever can be done, to a limiter and to its model.

use proptest::prelude::*;
use tollgate::{Algorithm, Oversize, Quota, RateLimiter};

use super::any::{algorithm, any_pause, cost, fine_quota, pause, quota};
use super::audit::fullest;
use super::kept::Kept;
use super::rule::nanos;
use crate::limiter_world::LAST_TICK;
use crate::limiter_world::steps::{Step, carry, closing, index, oversize, run, steps};
use crate::limiter_world::world::World;
use crate::support::cases::cases;

/// What asks, waits, leaves and gives back.
fn asking() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => cost().prop_map(Step::Try),
        6 => cost().prop_map(Step::Acquire),
        3 => cost().prop_map(Step::Reserve),
        6 => index().prop_map(Step::Poll),
        4 => index().prop_map(Step::Drop),
        1 => index().prop_map(Step::Forget),
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

fn changing(quota: impl Strategy<Value = Quota>) -> impl Strategy<Value = Step> {
    prop_oneof![
        9 => charging(),
        1 => (quota, carry()).prop_map(|(quota, carry)| Step::SetQuota(quota, carry)),
    ]
}

fn start() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0), 1 => 0..=LAST_TICK, 1 => LAST_TICK - 200..=LAST_TICK + 3]
}

fn world(algorithm: Algorithm, quota: Quota, oversize: Oversize, start: u64) -> World<Kept> {
    let limiter = RateLimiter::new(quota).algorithm(algorithm);
    World::new(limiter, Kept::new(algorithm, quota), oversize, start)
}

/// Of what was charged under one quota, whatever was before it.
fn assert_promise(kept: &Kept, algorithm: Algorithm) {
    for (quota, asked) in kept.asked() {
        let fullest = fullest(&asked, nanos(quota));
        match algorithm {
            Algorithm::SlidingWindow => assert!(fullest < 2 * quota.count() || fullest == 1),
            _ => assert!(fullest <= quota.count(), "{fullest} in a period"),
        }
    }
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn who_asks_is_told_what_the_model_says_and_the_promise_is_kept(
        algorithm in algorithm(),
        quota in quota(),
        steps in steps(asking()),
    ) {
        let kept = run(world(algorithm, quota, Oversize::Refuse, 0), steps);
        assert_promise(&kept, algorithm);
    }

    #[test]
    fn debts_agree_with_the_model(
        algorithm in algorithm(),
        quota in fine_quota(),
        oversize in oversize(),
        start in start(),
        steps in steps(charging()),
    ) {
        run(world(algorithm, quota, oversize, start), steps);
    }

    #[test]
    fn debts_of_any_period_agree_with_the_model(
        algorithm in prop_oneof![Just(Algorithm::SlidingLog), Just(Algorithm::SlidingWindow)],
        quota in quota(),
        oversize in oversize(),
        start in start(),
        steps in steps(charging()),
    ) {
        run(world(algorithm, quota, oversize, start), steps);
    }

    #[test]
    fn changes_of_the_quota_agree_with_the_model(
        algorithm in algorithm(),
        quota in fine_quota(),
        oversize in oversize(),
        steps in closing(changing(fine_quota())),
    ) {
        let kept = run(world(algorithm, quota, oversize, 0), steps);
        assert_promise(&kept, algorithm);
    }
}
