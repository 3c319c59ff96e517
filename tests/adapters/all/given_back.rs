//! What has been entered is undone once, by its own part, the last first, when a part refuses or the
//! wait is dropped; and what the caller was given is the caller's.

use tollgate::ErrorKind;

use super::shapes::{Entered, NAMES, Shape, shapes};
use crate::support::Waiter;
use crate::support::scripted::Script;

/// What is in the log when the first so many parts have been entered by a wait.
pub(super) fn entered(parts: usize) -> Vec<String> {
    let names = NAMES[..parts].iter();
    names
        .flat_map(|name| [format!("enter {name}"), format!("in {name}0")])
        .collect()
}

/// What is in the log when the first so many parts have been undone.
pub(super) fn undone(parts: usize) -> Vec<String> {
    let names = NAMES[..parts].iter().rev();
    names.map(|name| format!("undo {name}0")).collect()
}

#[track_caller]
fn assert_refused(shape: &Shape, entered: Entered, part: usize, kind: ErrorKind) {
    let error = entered.expect_err("it was let in");
    assert_eq!(error.kind(), kind, "{}", shape.description);
    assert_eq!(
        error.part(),
        Some(shape.outermost[part]),
        "{}",
        shape.description
    );
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

#[test]
fn a_try_that_is_refused_by_any_part() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::Refuse(ErrorKind::QueueFull));
        assert_refused(shape, shape.try_enter(), part, ErrorKind::QueueFull);
        let name = NAMES[part];
        let mut expected: Vec<_> = NAMES[..part]
            .iter()
            .flat_map(|name| [format!("try {name}"), format!("in {name}0")])
            .collect();
        expected.extend([format!("try {name}"), format!("refuse {name}")]);
        expected.extend(undone(part));
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
    });
}

#[test]
fn a_wait_that_is_refused_at_once_by_any_part() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::Refuse(ErrorKind::Closed));
        let mut waiter = Waiter::new(shape.enter());
        assert_refused(shape, waiter.output(), part, ErrorKind::Closed);
        let name = NAMES[part];
        let mut expected = entered(part);
        expected.extend([format!("enter {name}"), format!("refuse {name}")]);
        expected.extend(undone(part));
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
        // Nothing is left for the future that is over.
        drop(waiter);
        assert!(shape.log.take().is_empty(), "{}", shape.description);
    });
}

#[test]
fn a_wait_that_is_refused_later_by_any_part() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::Wait);
        let mut waiter = Waiter::parked(shape.enter());
        shape.log.take();
        assert_eq!(waiter.wakes(), 0);
        shape.parts[part].now(Script::Refuse(ErrorKind::ExceedsCapacity));
        assert_eq!(waiter.wakes(), 1);
        assert_refused(shape, waiter.output(), part, ErrorKind::ExceedsCapacity);
        let mut expected = vec![format!("refuse {}", NAMES[part])];
        expected.extend(undone(part));
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
    });
}

#[test]
fn a_wait_that_is_dropped_at_any_part_leaves_its_line_first() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::Wait);
        let mut waiter = Waiter::parked(shape.enter());
        assert!(waiter.is_pending());
        let name = NAMES[part];
        let mut expected = entered(part);
        expected.push(format!("enter {name}"));
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
        drop(waiter);
        let mut expected = vec![format!("leave {name}")];
        expected.extend(undone(part));
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
    });
}

#[test]
fn a_wait_that_has_been_let_in_further_and_is_dropped_unpolled() {
    each_part(|shape, part| {
        shape.parts[part].now(Script::Wait);
        let waiter = Waiter::parked(shape.enter());
        shape.parts[part].now(Script::Admit);
        assert_eq!(waiter.wakes(), 1);
        shape.log.take();
        drop(waiter);
        let mut expected = vec![format!("leave {}", NAMES[part])];
        expected.extend(undone(part));
        assert_eq!(shape.log.take(), expected, "{}", shape.description);
    });
}

#[test]
fn a_wait_that_is_never_polled_asks_nobody_but_the_first() {
    for shape in shapes() {
        drop(shape.enter());
        let log = shape.log.take();
        assert!(
            log.is_empty() || log == ["enter a", "leave a"],
            "{}: {log:?}",
            shape.description
        );
    }
}

#[test]
fn who_is_let_in_has_all_permits_in_order_and_drops_them() {
    for shape in shapes() {
        let parts = shape.parts.len();
        let permits = Waiter::new(shape.enter()).output().expect("let in");
        assert_eq!(shape.log.take(), entered(parts), "{}", shape.description);
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
        let mut line: Vec<_> = (0..3).map(|_| Waiter::parked(shape.enter())).collect();
        shape.log.take();
        for (number, at) in [(1, 1), (0, 0), (2, 0)] {
            drop(line.remove(at));
            let mut expected = vec![format!("leave {}", NAMES[last])];
            let names = NAMES[..last].iter().rev();
            expected.extend(names.map(|name| format!("undo {name}{number}")));
            assert_eq!(shape.log.take(), expected, "{}", shape.description);
        }
    }
}
