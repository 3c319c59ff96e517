//! From left to right: a part is asked when those before it have let in, and not before.

use tollgate::{Throttle, all};

use super::given_back::{each_part, tried};
use super::shapes::NAMES;
use crate::support::Waiter;
use crate::support::scripted::{Lingers, Log, Script};

#[test]
fn a_part_is_not_asked_before_those_on_its_left_have_let_in() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::Wait);
        let mut waiter = Waiter::parked(shape.enter());
        for _ in 0..3 {
            assert!(waiter.is_pending());
        }
        let expected = shape.begun(part).events;
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
        // Then the others are, in the same poll.
        shape.parts[part].now(Script::Admit);
        let permits = waiter.output().expect("let in");
        let mut expected = vec![format!("in {}0", NAMES[part])];
        expected.extend(tried(shape.parts.len()).drain(2 * (part + 1)..));
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
        drop(permits);
    });
}

#[test]
fn a_part_that_has_let_in_is_not_polled_again() {
    let log = Log::default();
    let (first, second) = (log.part("a"), log.part("b"));
    second.now(Script::Wait);
    let mut waiter = Waiter::parked(all((first.clone(), second.clone())).enter());
    // Would count as a refusal, or panic, if the first were asked again.
    first.now(Script::PanicWhenPolled);
    assert!(waiter.is_pending());
    second.now(Script::Admit);
    let (a, b) = waiter.output().expect("let in");
    assert_eq!((a.name(), b.name()), ("a0".into(), "b0".into()));
}

#[test]
fn the_wait_of_a_part_is_over_before_the_next_one_is_asked() {
    let log = Log::default();
    let (first, second) = (Lingers::admits(&log), log.part("b"));
    second.now(Script::Wait);
    let waiter = Waiter::parked(all((first, second)).enter());
    assert_eq!(log.take(), ["over", "enter b"]);
    drop(waiter);
}

#[test]
fn the_wait_of_a_part_that_refused_is_over_before_others_are_undone() {
    let log = Log::default();
    let (first, second) = (log.part("a"), Lingers::refuses(&log));
    let mut waiter = Waiter::new(all((first, second)).enter());
    assert!(waiter.output().is_err());
    assert_eq!(log.take(), ["try a", "in a0", "over", "undo a0"]);
}
