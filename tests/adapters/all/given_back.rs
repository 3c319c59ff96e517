//! A refusal or a dropped wait undoes every entered part once, through that part, in reverse order;
//! a permit that the caller received belongs to the caller.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use tollgate::{ErrorKind, Throttle, all};

use super::shapes::{Entered, NAMES, Shape, shapes};
use crate::support::Waiter;
use crate::support::scenarios::check;
use crate::support::scripted::{Lingers, Log, Script};

/// Returns the log when this many parts have been entered without a wait.
fn tried(parts: usize) -> Vec<String> {
    let names = NAMES[..parts].iter();
    names
        .flat_map(|name| [format!("try {name}"), format!("in {name}0")])
        .collect()
}

/// Returns the log when this many parts have been undone.
fn undone(parts: usize) -> Vec<String> {
    let names = NAMES[..parts].iter().rev();
    names.map(|name| format!("undo {name}0")).collect()
}

/// Runs a check for each part of each shape, with fresh values.
pub(super) fn each_part(check: impl Fn(&Shape, usize)) {
    for part in 0..NAMES.len() {
        for shape in shapes() {
            if part < shape.parts.len() {
                check(&shape, part);
            }
        }
    }
}

/// Each row has the script of the part, and then the steps: calls with their outcomes, scripts of the part, and log
/// entries: `tried` or `begun` stands for the events before the part, `undone` for undoing all of it, `entered` for
/// entering the part and those behind it, `returned` for undoing these, and any other word is an event of the part
/// itself.
const SCENARIOS: &str = "
a try that is refused by any part | refuse | try refused, log tried try refuse undone
enter_now that any part refuses | wait | now none, log tried undone, admit, now all
enter_now that panics in any part | panic-tried | now panics, log tried try undone
a wait that is never polled asks nobody | admit | drop, log
a part is asked once those on its left have let in, and undone before them | wait | enter, log begun, 3 x poll, log,
    admit, poll all, log entered returned undone, drop, log
a wait that is refused at once by any part | refuse | enter refused, log begun refuse undone, drop, log
a wait that is refused later by any part | wait | enter, log begun, refuse, woken, poll refused, log refuse undone,
    drop, log
a wait that is dropped at any part leaves its queue first | wait | enter, log begun, poll, drop, log leave undone
a wait that is dropped when the part would admit it | wait | enter, log begun, admit, woken, drop, log leave undone
a part that panics when it is tried | panic-tried | try panics, log tried try undone
a part that panics when it is tried by a wait | panic-tried | enter panics, log tried try undone
a part that panics when it is asked | panic-asked | enter panics, log begun undone
a part that panics when it is polled | panic-polled | enter panics, drop, log begun leave undone
a part that panics after it had to wait | wait | enter, log begun, panic-polled, poll panics, drop, log leave undone
";

fn script(word: &str) -> Script {
    match word {
        "admit" => Script::Admit,
        "wait" => Script::Wait,
        "refuse" => Script::Refuse(ErrorKind::QueueFull),
        "panic-tried" => Script::PanicWhenTried,
        "panic-asked" => Script::PanicWhenAsked,
        "panic-polled" => Script::PanicWhenPolled,
        _ => panic!("no call: {word:?}"),
    }
}

/// Returns the outcome of a call to the shape, in the words of the rows.
fn outcome_of(
    shape: &Shape,
    part: usize,
    run: &mut dyn FnMut() -> Poll<Option<Entered>>,
) -> &'static str {
    match catch_unwind(AssertUnwindSafe(run)) {
        Err(_) => "panics",
        Ok(Poll::Pending) => "",
        Ok(Poll::Ready(None)) => "none",
        Ok(Poll::Ready(Some(Ok(permits)))) => {
            assert_eq!(permits.len(), shape.parts.len());
            shape.rollback(permits);
            "all"
        }
        Ok(Poll::Ready(Some(Err(error)))) => {
            let expected = (ErrorKind::QueueFull, Some(shape.outermost[part]));
            assert_eq!((error.kind(), error.part()), expected);
            "refused"
        }
    }
}

/// Returns the events that these words stand for.
fn events(shape: &Shape, part: usize, words: &str) -> Vec<String> {
    let mut undone = shape.begun(part).undone;
    let mut events = Vec::new();
    for word in words.split_whitespace() {
        match word {
            "tried" => {
                events.extend(tried(part));
                undone = self::undone(part);
            }
            "begun" => events.extend(shape.begun(part).events),
            "undone" => events.append(&mut undone),
            "entered" => {
                events.push(format!("in {}0", NAMES[part]));
                events.extend(tried(shape.parts.len()).drain(2 * (part + 1)..));
            }
            "returned" => {
                let parts = shape.parts.len();
                events.extend(self::undone(parts).drain(..parts - part));
            }
            event => events.push(format!("{event} {}", NAMES[part])),
        }
    }
    events
}

#[test]
fn each_part_of_each_shape_that_ends_a_call_has_those_before_it_undone() {
    check(SCENARIOS, |row| {
        each_part(|shape, part| {
            shape.parts[part].now(script(&row.setup));
            let mut waiter = Waiter::new(shape.enter());
            for text in row.texts() {
                let (call, rest) = text.split_once(' ').unwrap_or((&text, ""));
                let comes_to = |run: &mut dyn FnMut() -> _| {
                    assert_eq!(outcome_of(shape, part, run), rest, "{text}");
                };
                match (call, rest) {
                    ("try", _) => comes_to(&mut || Poll::Ready(Some(shape.try_enter()))),
                    ("now", _) => comes_to(&mut || Poll::Ready(shape.enter_now().map(Ok))),
                    ("enter" | "poll", _) => comes_to(&mut || waiter.poll().map(Some)),
                    // The wait, which may be over.
                    ("drop", "") => waiter = Waiter::new(shape.enter()),
                    ("woken", "") => assert_eq!(waiter.wakes(), 1),
                    ("log", words) => {
                        let expected = events(shape, part, words);
                        assert_eq!(shape.log.take(), expected, "{}", shape.description);
                    }
                    (told, "") => shape.parts[part].now(script(told)),
                    _ => panic!("too much is said in {text:?}"),
                }
            }
        });
        Ok::<(), String>(())
    });
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
