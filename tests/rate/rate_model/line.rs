//! Whoever waits, and all else that can be done, against the naive queue.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Clock, MissedTickBehavior, Oversize, Quota, RateLimiter};

use super::any::{any_pause, cost, modest_quota, pause, rule_and};
use super::owed::Owed;
use super::rule::Rule;
use crate::limiter_world::LAST_TICK;
use crate::limiter_world::amounts::Cost;
use crate::limiter_world::steps::{Step, carry, closing, index, oversize, run, steps};
use crate::limiter_world::world::World;
use crate::support::Waiter;
use crate::support::cases::cases;

/// All but a change of the quota, and the end.
fn step() -> impl Strategy<Value = Step> {
    // More than the burst once in a while, but not more than can be paid off.
    let cost = || cost().prop_filter("endless", |cost| !matches!(cost, Cost::Endless));
    prop_oneof![
        4 => cost().prop_map(Step::Try),
        8 => cost().prop_map(Step::Acquire),
        3 => cost().prop_map(Step::Reserve),
        6 => index().prop_map(Step::Poll),
        4 => index().prop_map(Step::Drop),
        1 => index().prop_map(Step::Forget),
        10 => pause().prop_map(Step::Advance),
        1 => cost().prop_map(Step::Charge),
        4 => index().prop_map(Step::Refund),
        2 => (index(), 0..=5_u64).prop_map(|(which, quarters)| Step::Settle(which, quarters)),
    ]
}

/// All that can happen.
fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => step(),
        1 => any_pause().prop_map(Step::Advance),
        2 => (modest_quota(), carry()).prop_map(|(quota, carry)| Step::SetQuota(quota, carry)),
    ]
}

fn start() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 1 => 0..=LAST_TICK, 1 => LAST_TICK - 100..=LAST_TICK]
}

fn world(
    (algorithm, quota): (Algorithm, Quota),
    missed: Option<MissedTickBehavior>,
    oversize: Oversize,
    start: u64,
) -> World<Owed> {
    let limiter = RateLimiter::new(quota).algorithm(algorithm);
    let limiter = match missed {
        Some(missed) => limiter.missed_tick(missed),
        None => limiter,
    };
    let delays = matches!(
        missed,
        Some(MissedTickBehavior::Delay | MissedTickBehavior::Burst { max: 0 })
    );
    let model = Owed::new(algorithm, quota, delays);
    World::new(limiter, model, oversize, start)
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn the_line_agrees_with_a_queue(
        chosen in rule_and(modest_quota()),
        oversize in oversize(),
        start in start(),
        steps in steps(step()),
    ) {
        run(world(chosen, None, oversize, start), steps).assert_promise();
    }

    /// If nobody is ever late it makes no difference how much would be made up for.
    #[test]
    fn the_line_agrees_whatever_is_made_up_for(
        chosen in rule_and(modest_quota()),
        max in 1..=u64::MAX,
        steps in steps(step()),
    ) {
        let missed = Some(MissedTickBehavior::Burst { max });
        run(world(chosen, missed, Oversize::Refuse, 0), steps).assert_promise();
    }

    #[test]
    fn the_line_agrees_when_the_quota_changes(
        chosen in rule_and(modest_quota()),
        oversize in oversize(),
        steps in closing(any_step()),
    ) {
        run(world(chosen, None, oversize, 0), steps).assert_promise();
    }

    /// Where a nanosecond is a whole number of units, waiters go at the same ticks.
    #[test]
    fn the_line_agrees_when_whoever_is_late_is_charged_late(
        period in 1..2_000_000_u64,
        burst in 1..6_u64,
        steps in steps(step()),
    ) {
        let quota = Quota::new(1, Duration::from_nanos(period)).burst(burst);
        let chosen = (Algorithm::Gcra, quota);
        run(world(chosen, Some(MissedTickBehavior::Delay), Oversize::Refuse, 0), steps).assert_promise();
    }

    #[test]
    fn everything_given_back_at_once_leaves_no_trace(
        (algorithm, quota) in rule_and(modest_quota()),
        before in prop::collection::vec((pause(), cost()), 0..10),
        costs in prop::collection::vec((cost(), any::<bool>(), index()), 1..60),
    ) {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
        let scale = Rule::by(algorithm, quota).scale();
        for (pause, cost) in before {
            clock.advance(Duration::from_nanos(pause.of(scale, clock.now().as_nanos())));
            let _ = limiter.try_acquire_many(cost.of(scale));
        }
        let burst = scale.most;
        let state = || (limiter.peek(), limiter.peek_many(burst), limiter.waiting());
        let untouched = state();

        let (mut charges, mut line) = (Vec::new(), Vec::new());
        for (cost, forced, _) in &costs {
            let cost = cost.of(scale).min(burst);
            if *forced {
                charges.push(limiter.charge(cost));
            } else if let Ok(charge) = limiter.try_acquire_many(cost) {
                charges.push(charge);
            } else {
                line.push(Waiter::parked(limiter.acquire_many(cost)));
            }
        }
        // In any order; those who get in meanwhile are given back like the others.
        for (_, _, which) in &costs {
            let all = charges.len() + line.len();
            if all == 0 {
                break;
            }
            match which.index(all).checked_sub(charges.len()) {
                None => limiter.refund(charges.remove(which.index(all))),
                Some(place) => drop(line.remove(place)),
            }
        }
        prop_assert_eq!(state(), untouched);
    }
}
