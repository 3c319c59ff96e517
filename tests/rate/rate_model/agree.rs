//! All possible calls, on a limiter and on its model: properties of every algorithm.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::rate::MissedTickBehavior;
use tollgate::{Algorithm, Clock, Quota, RateLimiter};

use super::model::model;
use super::schedule::Rule;
use super::steps::{
    Cost, Pause, Step, Steps, asking, changing, charging, chosen, closing, cost, index, local,
    modest_quota, or_unlimited, oversize, pause, rule_and, run, sliding, small_quota, start, steps,
    trying,
};
use super::world::{Setup, World};
use crate::quota::quotas;
use crate::support::Waiter;
use crate::support::cases::cases;

/// Draws limiters of any kind.
fn setup(chosen: impl Strategy<Value = (Algorithm, Quota)>) -> impl Strategy<Value = Setup> {
    let max_waiters = prop_oneof![4 => Just(usize::MAX), 1 => 0..4_usize];
    (chosen, oversize(), max_waiters, start()).prop_map(|(chosen, oversize, max_waiters, start)| {
        Setup {
            oversize,
            max_waiters,
            start,
            ..Setup::new(chosen)
        }
    })
}

fn missed() -> impl Strategy<Value = MissedTickBehavior> {
    let burst = |max| MissedTickBehavior::Burst { max };
    prop_oneof![
        1 => Just(MissedTickBehavior::Delay),
        2 => (0..=u64::MAX).prop_map(burst)
    ]
}

/// Draws a limiter whose quota changes, and which may be closed.
fn changed() -> impl Strategy<Value = (Setup, Steps)> {
    prop_oneof![
        (
            setup(rule_and(modest_quota())),
            closing(changing(modest_quota()))
        ),
        (
            setup(or_unlimited(modest_quota()).prop_map(|quota| (Algorithm::Gcra, quota))),
            closing(changing(or_unlimited(modest_quota())))
        ),
        (setup(sliding()), closing(changing(small_quota()))),
    ]
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn changes_of_the_quota_and_the_close_agree_with_the_model((setup, steps) in changed()) {
        run(World::new(setup), steps).assert_promise();
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn the_queue_agrees_with_the_model(setup in setup(chosen()), steps in steps(charging())) {
        run(World::new(setup), steps).assert_promise();
    }

    /// With no forced charges, so that the promise holds for all charges.
    #[test]
    fn calls_that_ask_agree_with_the_model_and_keep_the_promise(
        chosen in chosen(),
        steps in steps(asking()),
    ) {
        run(World::new(Setup::new(chosen)), steps).assert_promise();
    }

    /// If no timer is ever late, catching up makes no difference: where a nanosecond is a whole
    /// number of units, waiters are granted at the same ticks.
    #[test]
    fn the_queue_agrees_with_the_model_whatever_is_made_up_for(
        missed in missed(),
        chosen in chosen(),
        (period, burst) in (1..2_000_000_u64, 1..6_u64),
        steps in steps(charging()),
    ) {
        let is_late = matches!(
            missed,
            MissedTickBehavior::Delay | MissedTickBehavior::Burst { max: 0 }
        );
        let whole = Quota::new(1, Duration::from_nanos(period)).burst(burst);
        let setup = Setup {
            missed: Some(missed),
            ..Setup::new(if is_late { (Algorithm::Gcra, whole) } else { chosen })
        };
        run(World::new(setup), steps).assert_promise();
    }

    /// This holds for every valid quota, at any time, and by the promise alone: no try is refused
    /// that the promise allows, and after any pause no more than the burst is admitted at once.
    #[test]
    fn tries_by_any_quota_agree_with_the_model(
        chosen in rule_and(quotas()),
        start in start(),
        steps in steps(trying()),
    ) {
        let setup = Setup { start, ..Setup::new(chosen) };
        run(World::new(setup), steps).assert_promise();
    }

    /// In any time the charges are at most the quota and, for each handle, a batch.
    #[test]
    fn local_handles_agree_with_the_model_and_keep_their_bound(
        chosen in rule_and(modest_quota()),
        batches in prop::collection::vec(prop_oneof![1..=3_u64, 1..=40_u64], 3),
        steps in steps(prop_oneof![
            1 => (0..3_u64).prop_map(|cost| Step::Try(Cost::Few(cost))),
            9 => local(),
            2 => pause().prop_map(Step::Advance),
        ]),
    ) {
        let setup = Setup { batches: batches.clone(), ..Setup::new(chosen) };
        let world = run(World::new(setup), steps);
        Rule::by(chosen.0, chosen.1).assert_promise(batches.iter().sum(), world.through());
    }

    #[test]
    fn everything_given_back_at_once_leaves_no_trace(
        (algorithm, quota) in chosen(),
        before in prop::collection::vec((pause(), cost()), 0..10),
        costs in prop::collection::vec((cost(), any::<bool>(), index()), 1..60),
    ) {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
        let scale = model(algorithm, quota, false).scale();
        for (pause, cost) in before {
            clock.advance(Duration::from_nanos(pause.of(scale, clock.now().as_nanos())));
            let _ = limiter.try_acquire_many(cost.of(scale));
        }
        let burst = scale.most;
        let state = || (limiter.peek(), limiter.peek_many(burst), limiter.snapshot().waiting);
        let untouched = state();

        let (mut charges, mut queue) = (Vec::new(), Vec::new());
        for (cost, forced, _) in &costs {
            let cost = cost.of(scale).min(burst);
            if *forced {
                charges.push(limiter.charge(cost));
            } else if let Ok(charge) = limiter.try_acquire_many(cost) {
                charges.push(charge);
            } else {
                queue.push(Waiter::parked(limiter.acquire_many(cost)));
            }
        }
        // The order is random; callers that get in meanwhile are refunded like the others.
        for (_, _, which) in &costs {
            let all = charges.len() + queue.len();
            if all == 0 {
                break;
            }
            match which.index(all).checked_sub(charges.len()) {
                None => limiter.refund(charges.remove(which.index(all))),
                Some(place) => drop(queue.remove(place)),
            }
        }
        prop_assert_eq!(state(), untouched);
    }
}

/// The bound of local handles is reached except for one token of each batch: a batch less one is
/// buffered in each handle, the burst has come back, and all of it is used at once.
#[test]
fn the_bound_of_local_handles_is_reached_but_for_one_of_each() {
    let quota = Quota::new(1, Duration::from_nanos(10)).burst(40);
    let mut world = World::new(Setup {
        batches: vec![8; 3],
        ..Setup::new((Algorithm::Gcra, quota))
    });
    for handle in 0..3 {
        world.try_local(handle, 1);
    }
    world.step(Step::Advance(Pause::Nanos(400)));
    let before = world.through().len();
    for handle in 0..3 {
        (0..7).for_each(|_| world.try_local(handle, 1));
    }
    (0..5).for_each(|_| world.try_local(0, 8));
    world.compare();
    let at_once: u64 = world.through()[before..].iter().map(|(_, cost)| cost).sum();
    assert_eq!(at_once, 40 + 3 * 7);
}
