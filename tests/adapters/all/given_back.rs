//! What has been entered is undone once, by its own part, the last first, when a part refuses or the
//! wait is dropped; and what the caller was given is the caller's.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate::ErrorKind;

use super::shapes::{Begun, Entered, NAMES, Shape, shapes};
use crate::support::Waiter;
use crate::support::scripted::Script;

/// What is in the log when the first so many parts have been entered without a wait.
pub(super) fn tried(parts: usize) -> Vec<String> {
    let names = NAMES[..parts].iter();
    names
        .flat_map(|name| [format!("try {name}"), format!("in {name}0")])
        .collect()
}

/// What is in the log when the first so many parts have been undone.
fn undone(parts: usize) -> Vec<String> {
    let names = NAMES[..parts].iter().rev();
    names.map(|name| format!("undo {name}0")).collect()
}

/// Runs a check for each part of each shape, with everything new.
pub(super) fn each_part(check: impl Fn(&Shape, usize)) {
    for part in 0..NAMES.len() {
        for shape in shapes() {
            if part < shape.parts.len() {
                check(&shape, part);
            }
        }
    }
}

#[track_caller]
fn assert_refused(shape: &Shape, entered: Entered, part: usize, kind: ErrorKind) {
    let refused = entered.expect_err("it was let in");
    let outermost = Some(shape.outermost[part]);
    assert_eq!((refused.kind(), refused.part()), (kind, outermost));
}

/// Runs what panics on purpose.
#[track_caller]
fn panics<R>(run: impl FnOnce() -> R) {
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "no panic");
}

/// In the log are what came before, these events of the part, and that all before it were undone.
#[track_caller]
fn assert_undone(shape: &Shape, part: usize, before: Begun, events: &[&str]) {
    let mut expected = before.events;
    expected.extend(
        events
            .iter()
            .map(|event| format!("{event} {}", NAMES[part])),
    );
    expected.extend(before.undone);
    assert_eq!(shape.log.take(), expected, "{}", shape.description);
}

/// The parts before this one were entered without a wait, and then it was tried.
fn tried_until(part: usize) -> Begun {
    Begun {
        events: tried(part),
        undone: undone(part),
    }
}

/// The part was waited for, and what led to it is in the log no more.
fn waited_for(shape: &Shape, part: usize) -> Begun {
    let events = Vec::new();
    let undone = shape.begun(part).undone;
    Begun { events, undone }
}

/// A wait for the part; what led to it is in the log no more.
fn parked(shape: &Shape, part: usize) -> Waiter<impl Future<Output = Entered> + use<>> {
    shape.parts[part].now(Script::Wait);
    let waiter = Waiter::parked(shape.enter());
    assert_eq!(waiter.wakes(), 0);
    assert_eq!(shape.log.take(), shape.begun(part).events);
    waiter
}

#[test]
fn a_try_that_is_refused_by_any_part() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::Refuse(ErrorKind::QueueFull));
        assert_refused(shape, shape.try_enter(), part, ErrorKind::QueueFull);
        assert_undone(shape, part, tried_until(part), &["try", "refuse"]);
    });
}

#[test]
fn enter_now_that_any_part_refuses_rolls_back_the_parts_before_it() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::Wait);
        assert!(shape.enter_now().is_none(), "{}", shape.description);
        assert_undone(shape, part, tried_until(part), &[]);
        shape.parts[part].now(Script::Admit);
        let permits = shape.enter_now().expect("every part admits");
        assert_eq!(permits.len(), shape.parts.len());
        shape.rollback(permits);
    });
}

#[test]
fn enter_now_that_panics_in_any_part_rolls_back_the_parts_before_it() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::PanicWhenTried);
        panics(|| shape.enter_now());
        assert_undone(shape, part, tried_until(part), &["try"]);
    });
}

#[test]
fn a_wait_that_is_refused_at_once_by_any_part() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::Refuse(ErrorKind::Closed));
        let mut waiter = Waiter::new(shape.enter());
        assert_refused(shape, waiter.output(), part, ErrorKind::Closed);
        assert_undone(shape, part, shape.begun(part), &["refuse"]);
        // Nothing is left for the future that is over.
        drop(waiter);
        assert!(shape.log.take().is_empty(), "{}", shape.description);
    });
}

#[test]
fn a_wait_that_is_refused_later_by_any_part() {
    each_part(|shape, part| {
        let mut waiter = parked(shape, part);
        shape.parts[part].now(Script::Refuse(ErrorKind::ExceedsCapacity));
        assert_eq!(waiter.wakes(), 1);
        assert_refused(shape, waiter.output(), part, ErrorKind::ExceedsCapacity);
        assert_undone(shape, part, waited_for(shape, part), &["refuse"]);
    });
}

#[test]
fn a_wait_that_is_dropped_at_any_part_leaves_its_queue_first() {
    for admitted in [false, true] {
        each_part(|shape, part| {
            let mut waiter = parked(shape, part);
            if admitted {
                shape.parts[part].now(Script::Admit);
                assert_eq!(waiter.wakes(), 1);
            } else {
                assert!(waiter.is_pending());
            }
            drop(waiter);
            assert_undone(shape, part, waited_for(shape, part), &["leave"]);
        });
    }
}

#[test]
fn a_part_that_panics_when_it_is_tried_asked_or_polled() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::PanicWhenTried);
        panics(|| shape.try_enter());
        assert_undone(shape, part, tried_until(part), &["try"]);
    });
    each_part(|shape, part| {
        shape.parts[part].now(Script::PanicWhenTried);
        panics(|| Waiter::new(shape.enter()).poll());
        assert_undone(shape, part, tried_until(part), &["try"]);
    });
    each_part(|shape, part| {
        shape.parts[part].now(Script::PanicWhenAsked);
        panics(|| Waiter::new(shape.enter()).poll());
        assert_undone(shape, part, shape.begun(part), &[]);
    });
    each_part(|shape, part| {
        shape.parts[part].now(Script::PanicWhenPolled);
        panics(|| Waiter::new(shape.enter()).poll());
        assert_undone(shape, part, shape.begun(part), &["leave"]);
    });
}

#[test]
fn a_part_that_panics_after_it_had_to_wait() {
    each_part(|shape, part| {
        let mut waiter = parked(shape, part);
        shape.parts[part].now(Script::PanicWhenPolled);
        panics(|| waiter.poll());
        drop(waiter);
        assert_undone(shape, part, waited_for(shape, part), &["leave"]);
    });
}

#[test]
fn a_wait_that_is_never_polled_asks_nobody() {
    for shape in shapes() {
        drop(shape.enter());
        assert!(shape.log.take().is_empty(), "{}", shape.description);
    }
}

#[test]
fn a_caller_has_all_permits_in_order_and_drops_them() {
    for shape in shapes() {
        let parts = shape.parts.len();
        let permits = Waiter::new(shape.enter()).output().expect("let in");
        assert_eq!(shape.log.take(), tried(parts), "{}", shape.description);
        for (permit, name) in permits.iter().zip(NAMES) {
            assert_eq!(permit.name(), format!("{name}0"), "{}", shape.description);
        }
        assert_eq!(permits.len(), parts);
        drop(permits);
        let dropped: Vec<_> = NAMES[..parts]
            .iter()
            .map(|name| format!("drop {name}0"))
            .collect();
        assert_eq!(shape.log.take(), dropped, "{}", shape.description);

        // At once, or after a wait for each of them.
        drop(shape.try_enter().expect("let in"));
        shape.log.take();
        for part in &shape.parts {
            part.now(Script::Wait);
        }
        let mut waiter = Waiter::new(shape.enter());
        for part in &shape.parts {
            assert!(waiter.is_pending());
            part.now(Script::Admit);
        }
        assert_eq!(waiter.wakes(), parts);
        let permits = waiter.output().expect("let in");
        drop(waiter);
        assert!(permits.iter().all(|permit| permit.name().ends_with('2')));
        assert_eq!(shape.log.take(), {
            let names = NAMES[..parts].iter();
            names
                .flat_map(|name| [format!("enter {name}"), format!("in {name}2")])
                .collect::<Vec<_>>()
        });
    }
}

#[test]
fn a_composition_that_is_undone_undoes_each_the_last_first() {
    for shape in shapes() {
        let permits = shape.try_enter().expect("let in");
        shape.log.take();
        shape.rollback(permits);
        let expected = undone(shape.parts.len());
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
    }
}

#[test]
fn each_entry_undoes_its_own_permits() {
    for shape in shapes() {
        let last = shape.parts.len() - 1;
        shape.parts[last].now(Script::Wait);
        let mut waiters = Vec::new();
        for _ in 0..3 {
            let waiter = Waiter::parked(shape.enter());
            // What it has entered and not undone, the last first.
            let mut held: Vec<String> = Vec::new();
            for event in shape.log.take() {
                match event.split_once(' ').expect("two words") {
                    ("in", permit) => held.insert(0, format!("undo {permit}")),
                    ("undo", _) => assert_eq!(held.remove(0), event),
                    _ => {}
                }
            }
            assert_eq!(held.len(), last);
            waiters.push((waiter, held));
        }
        for at in [1, 0, 0] {
            let (waiter, held) = waiters.remove(at);
            drop(waiter);
            let mut expected = vec![format!("leave {}", NAMES[last])];
            expected.extend(held);
            assert_eq!(shape.log.take(), expected, "{}", shape.description);
        }
    }
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
