//! Random classes and operations, beside the naive queue; and the bounds that the documentation of the
//! queue states, of which neither the queue nor the model is asked.

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError};

use super::naive::Class;
use super::world::{Settings, Tested, World};
use crate::support::cases::cases;
use crate::support::scenarios::{Names, at_random};

fn class() -> impl Strategy<Value = Class> {
    let milliseconds = std::time::Duration::from_millis;
    let adaptive_lifo = prop::option::weighted(0.5, (0..30_u64).prop_map(milliseconds));
    let most = prop_oneof![Just(u64::from(u32::MAX)), 1..4_u64];
    let max_waiters = prop_oneof![3 => Just(usize::MAX), 1 => 0..4_usize];
    let weight = prop::sample::select(vec![1, 2, 4]);
    (0..3_u8, weight, most, max_waiters, adaptive_lifo).prop_map(
        |(priority, weight, most, max_waiters, adaptive_lifo)| Class {
            priority,
            weight,
            most,
            max_waiters,
            adaptive_lifo,
            ..Class::default()
        },
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    (
        prop::collection::vec(class(), 1..5),
        1..5_usize,
        prop_oneof![Just(usize::MAX), 0..6_usize],
        prop::option::of(1..40_u64),
        any::<bool>(),
    )
        .prop_map(|(classes, permits, max_waiters, aging, by_cost)| Settings {
            classes,
            permits,
            max_waiters,
            aging,
            by_cost,
            class_names: Vec::new(),
            is_plain: false,
        })
}

const CALLS: &str = "6 enter # 0..4, 1 try # 0..4, 4 poll #, 2 drop #, 4 release #, 2 undo #, 2 settle # 1..6, \
    2 advance 0..50";

/// Does the calls to both, and checks something after each.
fn run(settings: &Settings, calls: &[String], mut check: impl FnMut(&World) -> Tested) -> Tested {
    let mut world = World::new(settings, Names::AtRandom);
    for call in calls {
        world.step(call)?;
        check(&world)?;
    }
    world.leave()
}

/// Only priorities and weights: nothing else decides who is next.
fn plain(by_cost: bool) -> impl Strategy<Value = Settings> {
    let class = (0..2_u8, prop::sample::select(vec![1, 2, 4]));
    prop::collection::vec(class, 2..5).prop_map(move |classes| {
        let class = |(priority, weight)| Class {
            priority,
            weight,
            ..Class::default()
        };
        Settings {
            classes: classes.into_iter().map(class).collect(),
            permits: 4,
            max_waiters: usize::MAX,
            aging: None,
            by_cost,
            class_names: Vec::new(),
            is_plain: true,
        }
    })
}

/// What a class has, and whether it waits.
struct Seen<'a> {
    class: &'a Class,
    held: u64,
    waits: bool,
}

impl Seen<'_> {
    /// A number per weight, which is whole.
    fn scaled(&self, number: u64) -> i64 {
        (number * 4 / self.class.weight).cast_signed()
    }
}

fn seen<'a>(world: &World, settings: &'a Settings) -> Vec<Seen<'a>> {
    let unseen = |class| Seen {
        class,
        held: 0,
        waits: false,
    };
    let mut all: Vec<_> = settings.classes.iter().map(unseen).collect();
    for class in world.queue.snapshot() {
        all[class.key].held = class.held;
        all[class.key].waits = class.waiting > 0;
    }
    all
}

/// Nobody of a lower priority was served while one of a higher one waits.
fn check_priorities(world: &World, seen: &[Seen<'_>]) -> Tested {
    let waits = seen.iter().filter(|one| one.waits);
    let highest = waits.map(|one| one.class.priority).max().unwrap_or(0);
    for (class, _) in &world.served {
        prop_assert!(seen[*class].class.priority >= highest);
    }
    Ok(())
}

#[test]
fn cases_draw_the_same_numbers_in_every_run() {
    assert_ne!(cases(1).rng_seed, RngSeed::Random);
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn random_steps_agree_with_the_naive_queue(
        settings in settings(),
        calls in at_random(CALLS, 120),
    ) {
        run(&settings, &calls, |_| Ok(()))?;
    }

    /// `held_i/w_i - held_j/w_j <= 1/w_i` for the class `i` that was given the one permit.
    #[test]
    fn a_class_that_gets_a_permit_is_ahead_of_no_other_by_more_than_that(
        settings in plain(false),
        calls in at_random(CALLS, 200),
    ) {
        run(&settings, &calls, |world| {
            let seen = seen(world, &settings);
            check_priorities(world, &seen)?;
            prop_assert!(world.served.len() <= 1);
            for (class, _) in &world.served {
                let one = &seen[*class];
                let same = |other: &&Seen<'_>| other.class.priority == one.class.priority;
                for other in seen.iter().filter(|other| other.waits).filter(same) {
                    prop_assert!(one.scaled(one.held) <= other.scaled(other.held) + one.scaled(1));
                }
            }
            Ok(())
        })?;
    }

    /// `|W_i/w_i - W_j/w_j| <= cost_i/w_i + cost_j/w_j` of what they were charged while both waited.
    #[test]
    fn charges_of_classes_that_wait_differ_by_a_cost_of_each(
        settings in plain(true),
        calls in at_random(CALLS, 200),
    ) {
        let count = settings.classes.len();
        let mut ahead = vec![vec![0; count]; count];
        run(&settings, &calls, |world| {
            let seen = seen(world, &settings);
            check_priorities(world, &seen)?;
            for (class, cost) in &world.served {
                let scaled = seen[*class].scaled(*cost);
                ahead[*class].iter_mut().for_each(|ahead| *ahead += scaled);
                ahead.iter_mut().for_each(|ahead| ahead[*class] -= scaled);
            }
            for (class, other) in (0..count).flat_map(|one| (0..count).map(move |two| (one, two))) {
                let (one, two) = (&seen[class], &seen[other]);
                if one.class.priority != two.class.priority || !one.waits || !two.waits {
                    ahead[class][other] = 0;
                }
                let most = one.scaled(4) + two.scaled(4);
                prop_assert!(ahead[class][other] <= most, "{} of {most}", ahead[class][other]);
            }
            Ok::<(), TestCaseError>(())
        })?;
    }
}
