//! While there is room, a map is as many limiters as there are keys, by each algorithm that keeps a word,
//! whatever happens to them.

use std::collections::HashMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{Algorithm, Clock, ErrorKind, Oversize, Quota, RateLimiter, WhenFull};

use super::world::{Step, Users, World, step};
use crate::support::Waiter;
use crate::support::cases::cases;
use crate::support::foreign::panic_message;

const SECOND: Duration = Duration::from_secs(1);

/// The algorithms that keep a word, and quotas that fit them. But for the default all of a second:
/// windows of a single limiter begin again when their length changes, and those of keys do not.
fn rules() -> impl Strategy<Value = (Algorithm, [Quota; 4])> {
    let any = [
        Quota::per_second(1).burst(3),
        Quota::per_second(3),
        Quota::per_second(7).burst(10),
        Quota::per_minute(90).burst(5),
    ];
    // Counts that also the parts of a period fit.
    let windows = [
        Quota::per_second(6),
        Quota::per_second(5).burst(5),
        Quota::per_second(17),
        Quota::per_second(90),
    ];
    let bursts = any.map(|quota| Quota::per_second(quota.count()).burst(quota.max_burst()));
    let other = prop::sample::select(other_words());
    prop_oneof![
        5 => Just((Algorithm::Gcra, any)),
        1 => Just((Algorithm::TokenBucket, bursts)),
        1 => Just((Algorithm::SubInterval { parts: 1 }, windows)),
        4 => other.prop_map(move |algorithm| (algorithm, windows)),
    ]
}

/// The algorithms that keep a word, except the default.
fn other_words() -> Vec<Algorithm> {
    let all = Algorithm::all().iter().copied();
    let words = all.filter(|it| it.keeps_a_word() && *it != Algorithm::Gcra);
    words.collect()
}

fn oversize() -> impl Strategy<Value = Oversize> {
    prop_oneof![2 => Just(Oversize::Refuse), 1 => Just(Oversize::Overdraft)]
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
    #![proptest_config(cases(700))]

    #[test]
    fn under_the_cap_every_key_is_a_limiter(
        (rule, quotas) in rules(),
        own in any::<bool>(),
        oversize in oversize(),
        max_keys in prop_oneof![Just(5_usize), Just(100)],
        steps in vec(step(5), 1..80),
    ) {
        run(World::new(rule, quotas, max_keys, own, oversize), &steps);
    }

    #[test]
    fn at_the_cap_a_key_that_is_not_refused_is_a_limiter(
        (rule, quotas) in rules(),
        own in any::<bool>(),
        oversize in oversize(),
        steps in vec(step(12), 1..120),
    ) {
        run(World::new(rule, quotas, 4, own, oversize), &steps);
    }

    /// Forty keys, and room for eight.
    #[test]
    fn evicted_keys_are_never_admitted_later(
        (rule, quotas) in rules(),
        own in any::<bool>(),
        calls in vec((0..40_u32, 1..4_u64, 0..400_000_000_u64), 1..200),
    ) {
        let clock = Clock::manual();
        clock.advance(Duration::from_nanos(123_456_789));
        let of = move |key: u32| quotas[if own { key as usize % 4 } else { 0 }];
        let mut users = Users::new(RateLimiter::new(quotas[0]).algorithm(rule).clock(&clock))
            .max_keys(8)
            .when_full(WhenFull::Evict);
        if own {
            users = users.quotas(move |key| of(*key));
        }
        let single = |key| (key, RateLimiter::new(of(key)).algorithm(rule).clock(&clock));
        let single: HashMap<_, _> = (0..40).map(single).collect();
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
            prop_assert!(users.key(&key).snapshot().available >= single[&key].snapshot().available);
        }
        prop_assert!(users.len() <= 8);
    }
}

/// To count the steps of a day one nanosecond after the other would take years.
#[test]
fn set_quota_for_all_keys_is_done_at_once_by_every_rule() {
    for rule in other_words() {
        let users = Users::new(
            RateLimiter::new(Quota::per_day(20))
                .algorithm(rule)
                .clock(Clock::manual()),
        );
        let most = users.key(&1).snapshot().available;
        users.key(&1).try_acquire_many(most).unwrap();
        users.set_quota(Quota::per_day(40));
        let left = (
            users.key(&1).snapshot().available,
            users.key(&2).snapshot().available,
        );
        assert_eq!(left, (most, 2 * most));
    }
}

#[test]
fn quota_of_a_key_that_does_not_fit_leaves_the_map_as_it_was() {
    let clock = Clock::manual();
    let users = Users::new(
        RateLimiter::new(Quota::per_second(4))
            .algorithm(Algorithm::FixedWindow)
            .clock(&clock),
    )
    .max_keys(4)
    .quotas(|key| match key {
        0 => Quota::per_second(4).burst(2),
        _ => Quota::per_second(4),
    });
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
        panic_message(|| wrong.snapshot().available),
        panic_message(|| wrong.quota()),
    ] {
        assert_eq!(message.as_deref(), Some(expected));
    }
    assert_eq!(users.len(), 2);
    let charge = users.key(&1).try_acquire().unwrap();
    // There is nothing of it to be given back, whatever its quota is.
    wrong.refund(charge);
    assert_eq!(users.key(&1).snapshot().available, 0);
    clock.advance(SECOND);
    waiter.granted();
    users.shrink();
    users.set_quota(Quota::per_second(5));
    assert_eq!(users.key(&1).snapshot().available, 4);
    users.close();
    assert!(users.is_closed());
}
