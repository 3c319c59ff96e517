//! Keys that are decided by another rule than the default: each is a limiter by that rule.

use std::collections::HashMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{Algorithm, Clock, ErrorKind, ManualClock, Oversize, Quota, RateLimiter, WhenFull};

use super::world::{Step, Users, World, quotas, step};
use crate::support::Waiter;
use crate::support::cases::cases;
use crate::support::foreign::panic_message;

const SECOND: Duration = Duration::from_secs(1);

/// Those that keep a word, but for the default, and quotas that fit them. All of a second: windows of
/// a single limiter begin anew when their length changes, and those of keys do not.
fn rules() -> impl Strategy<Value = (Algorithm, [Quota; 4])> {
    let windows = [
        Quota::per_second(4),
        Quota::per_second(3).burst(3),
        Quota::per_second(7),
        Quota::per_second(90),
    ];
    let bursts = quotas().map(|quota| Quota::per_second(quota.count()).burst(quota.max_burst()));
    prop_oneof![
        Just((Algorithm::TokenBucket, bursts)),
        Just((Algorithm::TokenBucket, windows)),
        Just((Algorithm::FixedWindow, windows)),
        Just((Algorithm::SubInterval { parts: 1 }, windows)),
        Just((Algorithm::SubInterval { parts: 2 }, windows)),
    ]
}

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
    fn under_the_cap_every_key_is_a_limiter_by_its_rule(
        (rule, quotas) in rules(),
        steps in vec(step(5), 1..80),
        debts in any::<bool>(),
    ) {
        let oversize = if debts { Oversize::Overdraft } else { Oversize::Refuse };
        run(World::by(rule, quotas, 5, false, oversize), &steps);
    }

    #[test]
    fn with_quotas_of_their_own_every_key_is_a_limiter_by_its_rule(
        (rule, quotas) in rules(),
        steps in vec(step(5), 1..80),
    ) {
        run(World::by(rule, quotas, 5, true, Oversize::Refuse), &steps);
    }

    #[test]
    fn at_the_cap_who_is_not_refused_is_a_limiter_by_its_rule(
        (rule, quotas) in rules(),
        own in any::<bool>(),
        steps in vec(step(12), 1..120),
    ) {
        run(World::by(rule, quotas, 4, own, Oversize::Overdraft), &steps);
    }

    #[test]
    fn keys_that_are_evicted_are_never_admitted_later(
        (rule, quotas) in rules(),
        own in any::<bool>(),
        calls in vec((0..40_u32, 1..4_u64, 0..400_000_000_u64), 1..200),
    ) {
        let (users, single, clock) = crowd(rule, quotas, own, WhenFull::Evict);
        for (key, cost, pause) in calls {
            clock.advance(Duration::from_nanos(pause));
            let due = single[&key].peek_many(cost).retry_after;
            match users.key(&key).try_acquire_many(cost) {
                Ok(_) => drop(single[&key].charge(cost)),
                Err(error) if error.kind() == ErrorKind::ExceedsCapacity => {}
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::RateLimited);
                    prop_assert!(error.retry_after() <= Some(due));
                    prop_assert!(!due.is_zero());
                }
            }
            prop_assert!(users.key(&key).available() >= single[&key].available());
        }
        prop_assert!(users.len() <= 8);
    }
}

/// Forty keys, and room for eight.
fn crowd(
    rule: Algorithm,
    quotas: [Quota; 4],
    own: bool,
    when_full: WhenFull,
) -> (Users, HashMap<u32, RateLimiter>, ManualClock) {
    let clock = Clock::manual();
    clock.advance(Duration::from_nanos(123_456_789));
    let of = move |key: u32| quotas[if own { key as usize % 4 } else { 0 }];
    let mut users = Users::rate_limiters(quotas[0])
        .algorithm(rule)
        .max_keys(8)
        .when_full(when_full)
        .clock(&clock);
    if own {
        users = users.quotas(move |key| of(*key));
    }
    let single = |key| {
        let limiter = RateLimiter::new(of(key)).algorithm(rule).clock(&clock);
        (key, limiter)
    };
    (users, (0..40).map(single).collect(), clock)
}

/// Where time goes in steps, to count them one nanosecond after the other would take years.
#[test]
fn a_quota_for_all_is_changed_at_once_by_every_rule() {
    for rule in [
        Algorithm::TokenBucket,
        Algorithm::FixedWindow,
        Algorithm::SubInterval { parts: 1 },
    ] {
        let users = Users::rate_limiters(Quota::per_day(4))
            .algorithm(rule)
            .clock(Clock::manual());
        let most = users.key(&1).available();
        users.key(&1).try_acquire_many(most).unwrap();
        users.set_quota(Quota::per_day(8));
        assert_eq!(
            (users.key(&1).available(), users.key(&2).available()),
            (most, 2 * most)
        );
    }
}

#[test]
fn a_quota_of_a_key_that_does_not_fit_leaves_the_map_as_it_was() {
    let clock = Clock::manual();
    let users = Users::rate_limiters(Quota::per_second(4))
        .algorithm(Algorithm::FixedWindow)
        .max_keys(4)
        .quotas(|key| match key {
            0 => Quota::per_second(4).burst(2),
            _ => Quota::per_second(4),
        })
        .clock(&clock);
    let expected = "a window or a log allows its whole count at once";
    users.key(&1).try_acquire_many(3).unwrap();
    users.key(&2).try_acquire_many(4).unwrap();
    let mut waiter = Waiter::parked(users.key(&2).acquire());
    let wrong = users.key(&0);
    for message in [
        panic_message(|| wrong.try_acquire()),
        panic_message(|| wrong.acquire().wait()),
        panic_message(|| wrong.reserve()),
        panic_message(|| wrong.charge(1)),
        panic_message(|| wrong.peek()),
        panic_message(|| wrong.available()),
        panic_message(|| wrong.quota()),
        panic_message(|| wrong.waiting()),
    ] {
        assert_eq!(message.as_deref(), Some(expected));
    }
    assert_eq!(users.len(), 2);
    let charge = users.key(&1).try_acquire().unwrap();
    // There is nothing of it to be given back, whatever its quota is.
    wrong.refund(charge);
    assert_eq!(users.key(&1).available(), 0);
    clock.advance(SECOND);
    waiter.granted();
    users.shrink();
    users.set_quota(Quota::per_second(5));
    assert_eq!(users.key(&1).available(), 4);
    users.close();
    assert!(users.is_closed());
}
