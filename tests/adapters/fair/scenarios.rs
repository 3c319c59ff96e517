//! Sequences of calls to a fair queue in front of a semaphore, one a row. The outcome of each call,
//! its wakes and the observable state afterwards are compared with the model.
//!
//! A row has a name; the permits, the options of the queue (`aging` in milliseconds, `bound`) and its
//! classes with their options; and the calls. It runs by concurrency and by cost, unless it names one of
//! both. `enter` and `try` name a class and perhaps a cost. A waiting caller is appended to the waiters,
//! and a permit to the permits. `poll` and `drop` name a waiter, `release`, `undo` (`rollback`) and
//! `settle` a permit, by position from 0; `settle` also has the used cost. `gets` and `next` state the
//! class of the first waiter with a grant, and let it collect the grant; `next` first releases the first
//! permit.

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError};

use super::naive::Class;
use super::world::{Settings, Tested, World};
use crate::support::cases::cases;
use crate::support::scenarios::{Names, Row, Words, at_random, check};

const SCENARIOS: &str = "
# Who is next.
classes take turns, however many callers each has | 1, loud, quiet | try loud, 20 x enter loud, enter quiet,
    20 x next loud + next quiet + enter quiet
in a class the oldest is first, whatever it asks for | 4, a | try a 4, enter a 3, enter a 1, enter a 4, release 0,
    poll 0, poll 0, poll 0, release 0, poll 0, release 0, poll 0
a higher priority goes first, whoever came first | 1, low, high priority 1 | try low, 3 x enter low,
    3 x enter high, 3 x next high, 3 x next low
permits go by weight | 4 by-concurrency, one, four weight 4 | try one 4, 4 x enter one, 4 x enter four, release 0,
    gets one, 3 x gets four
a waiter that leaves puts its class behind one that came before the next | 1, a, b | try a, enter a, enter b,
    enter a, drop 0, next b, next a
turns by concurrency are turns of callers, whatever they ask for | 4 by-concurrency, holds, heavy, light |
    try holds 4, 8 x enter heavy 4, 8 x enter light, 8 x next heavy + next light
turns by cost are turns of units | 4 by-cost, holds, heavy, light | try holds 4, 3 x enter heavy 4,
    9 x enter light, next light, 2 x gets light, 2 x release 0, next heavy, next light, 3 x gets light,
    3 x release 0, next heavy
two low classes take turns after load of a high one | 1 by-cost, one, two, high priority 1 | try high,
    20 x enter one, 500 x enter high, 500 x next high, 20 x enter two, 20 x next one + next two
after a long call and a lower limit a class takes turns with the other | 2 by-concurrency, slow, fast | try slow,
    try fast, 4 x enter slow, 4 x enter fast, 100 x release 1 + gets fast + enter fast, limit 1, 2 x release 0,
    gets slow, 3 x next fast + next slow
settle counts what was asked for and not what was used | 100 by-cost, a, b | try a 100, enter a 50, enter b 10,
    enter a 50, 8 x enter b 10, limit 50, next b, 3 x gets b, 3 x release 0, next a, settle 0 0, 5 x gets b,
    4 x release 0, next a
what is rolled back counts as well | 1 by-cost, a, b | try a, enter a, next a, enter b, enter a, undo 0,
    gets b, next a
a newcomer of higher priority changes what the queue waits for | 4, low, high priority 1 | try low, try low 3,
    enter low 4, enter high 1, next high, 2 x release 0, gets low

# A new class pays first.
a class pays before its first grant, and not again | 1, old, new | try old, enter old, next old, 6 x enter old, enter new,
    enter new, next old, next new, next old, next new, next old
a new class pays for the waiter that goes and not for one that left | 8 by-cost, holds, old, new | try holds 8,
    enter new, enter new 8, 2 x enter old 2, drop 0, next old, next old, next new
a new class pays for the newest if that goes first | 8 by-cost, holds, old, new lifo 10 | try holds 8, enter new,
    advance 11, enter new 8, 2 x enter old 2, next old, next old, next new
a new class pays for the newest from the time on at which that goes first | 8 by-cost, holds, old, new lifo 10 |
    try holds 8, enter new, enter new 8, 2 x enter old 2, advance 10, advance 1, next old, next old, next new
a class that waited and left pays when it comes back | 1, old, new | try old, 3 x enter old, enter new, drop 3,
    next old, next old, enter new, enter old, next old, next new

# Aging.
a class that has aged goes before a higher one of its level | 1 aging 10, low, high priority 1 | try low,
    9 x enter low + next low, enter low, advance 10, enter high, next low, next high
a class of low priority under endless load goes after its aging | 1 aging 100, low, high priority 1 | try high,
    enter low, 5 x enter high, 9 x advance 10 + next high + enter high, advance 10, next low
a class of low priority under endless load never goes without aging | 1, low, high priority 1 | try high, enter low,
    5 x enter high, 99 x advance 10 + next high + enter high
a class ages up to the highest priority | 1 aging 10, low priority 254, high priority 255 | try high, enter low,
    advance 10, enter high, next low, next high
a class that has not waited for a period goes after a higher one | 1 aging 10, low, high priority 1 | try low,
    enter low, advance 9, enter high, next high, next low
a class that serves the newest first does not age | 1 aging 10, high priority 100, low lifo 1 | try high, enter low,
    advance 2000, 10 x enter high + enter low + next high
a class at its maximum ages while it waits | 1 aging 10, low most 1, high priority 1 most 1 | try low, enter low,
    advance 10, enter high, next low, next high
a return serves one that has aged meanwhile | 4 aging 100, p0, p1 priority 1, p2 priority 2, p3 priority 3 |
    try p2, try p3 3, enter p0, advance 50, enter p1 4, advance 60, next p0

# Bounds.
in a full class the newcomer is refused | 1, a waiters 2 | try a, 3 x enter a, next a, next a
in a full class that serves the newest first the oldest is refused | 1, a waiters 2 lifo 1000 | try a, 3 x enter a,
    advance 1001, enter a, poll 0, release 0, poll 1, release 0, poll 0
in a full queue every newcomer is refused, whatever its priority | 1 bound 1, low, same priority 1,
    high priority 2 | try same, enter same, enter low, enter same, enter high, next same
in a full queue the oldest of a class that serves the newest first is refused, and nobody of another |
    1 bound 2, other lifo 0, this lifo 0, third lifo 0 | try other, enter other, enter this, advance 1000,
    enter this, poll 1, enter third, next other, next this
a queue without room for waiters admits who need not wait | 2 bound 0, a | try a, enter a, enter a
a class at its maximum waits while others pass | 3, one priority 1 most 1, other | try one, enter one, try other,
    enter other, try one, next one
newest first begins when the oldest has waited for so long | 1, a lifo 10 | try a, 3 x enter a, advance 10, release 0,
    poll 0, enter a, advance 20, release 0, poll 2

# Permits are handed on.
a permit that is handed on is free at no time | 1, a, b | try a, enter a, enter b, enter a, next a, next b, next a
a grant that is dropped goes to the next | 1, a, b | try a, enter a, enter b, release 0, drop 0, gets b
a grant of another size that is dropped is given back | 3, a, b | try a 3, enter a 2, enter b 3, release 0, drop 0,
    gets b
the last waiter that leaves leaves the line of the semaphore | 1, a, b | try a, enter a, enter b, drop 0, drop 0
a permit above a lowered limit pays the debt | 2, a, b, c | try a, try b, enter c, limit 1, release 0, next c
while the limit is 0 nothing is handed on | 1, a, b | try a, enter b, limit 0, release 0, poll 0, limit 1, gets b
a higher limit serves all who fit | 1, a, b | try a, 3 x enter a, enter b, limit 3, gets a, gets b
a waiter that a lower limit made impossible is refused | 2, a, b priority 1, c | try a, enter b 2, enter c, limit 1,
    poll 0, next c

# Closing the throttle.
close refuses all who wait, and who come later | 2, a, b most 3 | try a 2, 9 x enter a + enter b, close, 18 x poll 0,
    try a, enter b
a permit that comes back after close serves nobody | 1, a, b | try a, enter b, close, release 0, poll 0
close refuses waiters of a class at its maximum when a permit of it returns | 2, a most 1, b most 1, c most 2 |
    try a, try b, 6 x enter a + enter b + enter c, close, 6 x poll 2, release 0, release 0
";

/// Returns the settings, and the kinds of shares that the row runs with.
fn setup(row: &Row) -> (Settings, Vec<bool>) {
    let mut parts = row.setup.split(',');
    let mut words = Words::new(parts.next().expect("the queue"));
    let mut settings = Settings::new(words.parse(), Vec::new());
    let mut shares = vec![false, true];
    while let Some(option) = words.maybe::<String>() {
        match &*option {
            "by-concurrency" => shares = vec![false],
            "by-cost" => shares = vec![true],
            "aging" => settings.aging = Some(words.parse()),
            "bound" => settings.max_waiters = words.parse(),
            _ => panic!("no option: {option:?}"),
        }
    }
    for part in parts {
        let mut words = Words::new(part);
        settings.class_names.push(words.parse());
        let mut class = Class::default();
        while let Some(option) = words.maybe::<String>() {
            match &*option {
                "priority" => class.priority = words.parse(),
                "weight" => class.weight = words.parse(),
                "most" => class.most = words.parse(),
                "waiters" => class.max_waiters = words.parse(),
                "lifo" => {
                    let limit = words.parse();
                    class.adaptive_lifo = Some(std::time::Duration::from_millis(limit));
                }
                _ => panic!("no option: {option:?}"),
            }
        }
        settings.classes.push(class);
    }
    (settings, shares)
}

#[test]
fn queue_in_each_scenario_does_what_the_model_does() {
    check(SCENARIOS, |row| {
        let (settings, shares) = setup(row);
        for by_cost in shares {
            let settings = Settings {
                by_cost,
                ..settings.clone()
            };
            let mut world = World::new(&settings, Names::Exactly);
            for call in row.texts() {
                world.step(&call)?;
            }
            world.leave()?;
        }
        Ok::<(), TestCaseError>(())
    });
}

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
            max_waiters,
            aging,
            by_cost,
            ..Settings::new(permits, classes)
        })
}

const CALLS: &str = "6 enter # 0..4, 1 try # 0..4, 4 poll #, 2 drop #, 4 release #, 2 undo #, 2 settle # 1..6, \
    2 advance 0..50";

/// Runs the calls on both, and runs a check after each.
fn run(settings: &Settings, calls: &[String], mut check: impl FnMut(&World) -> Tested) -> Tested {
    let mut world = World::new(settings, Names::AtRandom);
    for call in calls {
        world.step(call)?;
        check(&world)?;
    }
    world.leave()
}

/// Draws settings with only priorities and weights: nothing else decides the order.
fn plain(by_cost: bool) -> impl Strategy<Value = Settings> {
    let class = (0..2_u8, prop::sample::select(vec![1, 2, 4]));
    prop::collection::vec(class, 2..5).prop_map(move |classes| {
        let class = |(priority, weight)| Class {
            priority,
            weight,
            ..Class::default()
        };
        Settings {
            by_cost,
            is_plain: true,
            ..Settings::new(4, classes.into_iter().map(class).collect())
        }
    })
}

/// The units of a class, and whether it waits.
struct Seen<'a> {
    class: &'a Class,
    held: u64,
    waits: bool,
}

impl Seen<'_> {
    /// Returns a number per weight, scaled to a whole number.
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

/// Checks that no lower priority was served while a higher one waited.
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
