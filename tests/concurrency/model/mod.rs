//! The semaphore against the most obvious model of it: a vector of waiters and two integers.
//!
//! Random steps are done to both, and after each one everything that can be seen is compared: who
//! was let in or refused and with what, who was woken and how often, what is free, who waits.

mod naive;
mod scenarios;
mod subject;
mod world;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::Semaphore;

use self::subject::Subject;
use self::world::World;
use crate::support::cases::cases;
use crate::support::scenarios::{Names, at_random};

/// Small numbers, so that calls run into each other.
const CALLS: &str = "12 try 0..5, 24 acquire 0..5, 3 crowd 1..40 1..3, 18 poll #, 15 drop #, 3 drop-half, \
    18 release #, 3 release-all, 6 split # 0..4, 6 merge # #, 3 forget #, 6 limit 0..6, 3 limit 5..60, \
    3 add 0..3, 3 take-free 0..3, 3 reject, 6 idle, 6 poll-idle #, 3 drop-idle #, 1 close";

/// Does the calls to both, compares after each, and has everybody leave in the end.
fn run<S: Subject>(
    (limit, bound): (usize, Option<usize>),
    names: Names,
    calls: &[String],
) -> Result<(), TestCaseError> {
    let mut world = World::<S>::new(limit, bound, names);
    for call in calls {
        world.step(call)?;
    }
    world.leave()
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn agrees_with_a_vector_of_waiters(
        limit in 0..5_usize,
        bound in prop::option::weighted(0.25, 0..4_usize),
        calls in at_random(CALLS, 80),
    ) {
        run::<&Semaphore>((limit, bound), Names::AtRandom, &calls)?;
    }
}
