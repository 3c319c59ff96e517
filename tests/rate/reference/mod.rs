//! Rate limiters beside the [reference](crate::support::reference), under the same calls.
//!
//! Random calls, and rows of calls, go to a limiter on a manual clock and to the reference. After
//! each call the outcome and the whole observable state are compared for equality. A failure
//! prints the calls up to the difference as a row, which can be added to the [rows].

mod draw;
mod meaning;
mod rows;
mod world;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner, contextualize_config};
use tollgate::Algorithm;

use self::draw::{Draw, draws, setups};
pub(crate) use self::world::World;
use crate::support::cases::cases;
use crate::support::reference::Setup;

/// Runs random calls, and returns the calls up to the first difference as a row.
fn run(setup: Setup, draws: &[Draw]) -> Result<(), String> {
    let mut world = World::new(setup);
    for draw in draws {
        if let Some(text) = draw.say(&world) {
            world.call(&text)?;
        }
    }
    world.call("poll-all")
}

/// Compares one algorithm with the reference, in the same cases each time.
fn check(algorithm: Algorithm) {
    let config = ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        ..cases(256)
    };
    let mut runner = TestRunner::new(contextualize_config(config));
    let run = runner.run(&(setups(algorithm), draws()), |(setup, draws)| {
        run(setup, &draws).map_err(TestCaseError::fail)
    });
    if let Err(error) = run {
        panic!("{error}");
    }
}

#[test]
fn gcra_under_random_calls_does_what_the_reference_says() {
    check(Algorithm::Gcra);
}

#[test]
fn token_bucket_under_random_calls_does_what_the_reference_says() {
    check(Algorithm::TokenBucket);
}

#[test]
fn fixed_window_under_random_calls_does_what_the_reference_says() {
    check(Algorithm::FixedWindow);
}

#[test]
fn sliding_window_under_random_calls_does_what_the_reference_says() {
    check(Algorithm::SlidingWindow);
}

#[test]
fn sliding_log_under_random_calls_does_what_the_reference_says() {
    check(Algorithm::SlidingLog);
}

#[test]
fn sub_interval_under_random_calls_does_what_the_reference_says() {
    check(Algorithm::SubInterval { parts: 4 });
}
