//! A part that panics: what the others gave goes back all the same.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::given_back::{each_part, entered, undone};
use super::shapes::{NAMES, shapes};
use crate::support::Waiter;
use crate::support::scripted::Script;

/// Runs what panics on purpose.
#[track_caller]
fn panics<R>(run: impl FnOnce() -> R) {
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "no panic");
}

#[test]
fn a_part_that_panics_when_it_is_asked() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::PanicWhenAsked);
        panics(|| Waiter::new(shape.enter()).poll());
        let mut expected = entered(part);
        expected.push(format!("enter {}", NAMES[part]));
        expected.extend(undone(part));
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
    });
}

#[test]
fn a_part_that_panics_when_it_is_polled() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::PanicWhenPolled);
        panics(|| Waiter::new(shape.enter()).poll());
        let name = NAMES[part];
        let mut expected = entered(part);
        expected.extend([format!("enter {name}"), format!("leave {name}")]);
        expected.extend(undone(part));
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
    });
}

#[test]
fn a_part_that_panics_after_it_had_to_wait() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::Wait);
        let mut waiter = Waiter::parked(shape.enter());
        shape.log.take();
        shape.parts[part].now(Script::PanicWhenPolled);
        panics(|| waiter.poll());
        drop(waiter);
        let mut expected = vec![format!("leave {}", NAMES[part])];
        expected.extend(undone(part));
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
    });
}

#[test]
fn a_part_that_panics_when_it_is_tried() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::PanicWhenAsked);
        panics(|| shape.try_enter());
        let mut expected: Vec<_> = NAMES[..part]
            .iter()
            .flat_map(|name| [format!("try {name}"), format!("in {name}0")])
            .collect();
        expected.push(format!("try {}", NAMES[part]));
        expected.extend(undone(part));
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
    });
}

#[test]
fn a_holder_that_panics_drops_its_permits() {
    for shape in shapes() {
        panics(|| {
            let _permits = shape.try_enter().expect("let in");
            panic!("on purpose");
        });
        let log = shape.log.take();
        let dropped = log.iter().filter(|event| event.starts_with("drop"));
        assert_eq!(dropped.count(), shape.parts.len(), "{}", shape.description);
        assert!(!log.iter().any(|event| event.starts_with("undo")));
    }
}
