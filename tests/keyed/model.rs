//! While there is room, a map is as many limiters as there are keys, whatever happens to them.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;
use tollgate::{Clock, ErrorKind, Oversize, Quota, RateLimiter, WhenFull};

use super::world::{Step, Users, World, step};
use crate::support::cases::cases;

fn run(mut world: World, steps: &[Step]) {
    for step in steps {
        world.go(step);
        world.compare();
    }
    world.go(&Step::Close);
    world.compare();
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn under_the_cap_every_key_is_a_limiter(steps in vec(step(5), 1..80)) {
        run(World::new(5, false, Oversize::Refuse), &steps);
    }

    #[test]
    fn with_debts_every_key_is_a_limiter(steps in vec(step(4), 1..80)) {
        run(World::new(100, false, Oversize::Overdraft), &steps);
    }

    #[test]
    fn with_quotas_of_their_own_every_key_is_a_limiter(steps in vec(step(5), 1..80)) {
        run(World::new(5, true, Oversize::Refuse), &steps);
    }

    #[test]
    fn at_the_cap_who_is_not_refused_is_a_limiter(steps in vec(step(12), 1..120)) {
        run(World::new(4, false, Oversize::Refuse), &steps);
    }

    #[test]
    fn at_the_cap_who_has_a_quota_of_its_own_is_a_limiter(steps in vec(step(12), 1..120)) {
        run(World::new(4, true, Oversize::Overdraft), &steps);
    }

    #[test]
    fn evicted_keys_are_never_admitted_later(
        calls in vec((0..40_u32, 1..4_u64, 0..400_000_000_u64), 1..200)
    ) {
        let (users, clock) = users(WhenFull::Evict);
        let single = Singles::new(&clock);
        for (key, cost, pause) in calls {
            clock.advance(Duration::from_nanos(pause));
            let due = single.of(key).peek_many(cost).retry_after;
            match users.key(&key).try_acquire_many(cost) {
                Ok(_) => drop(single.of(key).charge(cost)),
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::RateLimited);
                    prop_assert!(error.retry_after() <= Some(due));
                    prop_assert!(!due.is_zero());
                }
            }
            prop_assert!(users.key(&key).available() >= single.of(key).available());
        }
        prop_assert!(users.len() <= 8);
    }
}

const QUOTA: Quota = Quota::per_second(2).burst(3);

fn users(when_full: WhenFull) -> (Users, tollgate::ManualClock) {
    let clock = Clock::manual();
    (
        Users::rate_limiters(QUOTA)
            .max_keys(8)
            .when_full(when_full)
            .clock(&clock),
        clock,
    )
}

struct Singles(HashMap<u32, RateLimiter>);

impl Singles {
    fn new(clock: &tollgate::ManualClock) -> Self {
        Self(
            (0..40)
                .map(|key| (key, RateLimiter::new(QUOTA).clock(clock)))
                .collect(),
        )
    }

    fn of(&self, key: u32) -> &RateLimiter {
        &self.0[&key]
    }
}
