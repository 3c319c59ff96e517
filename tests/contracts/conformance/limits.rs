//! Checks without a future: they also hold for types that can only block a thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tollgate::{ErrorKind, Throttle, TryThrottle};

use super::subject::{
    AnyPermit, AnyThrottle, Entered, Subject, assert_at_rest, assert_no_room, fill,
};
use crate::support::random::Random;
use crate::support::{in_destructors, kind};

pub(crate) fn at_the_limit_nobody_is_let_in(subject: &Subject) {
    for limit in 1..5 {
        let throttle = subject.with_limit(limit);
        let permits = fill(&throttle, limit);
        for _ in 0..3 {
            assert_no_room(throttle.try_enter());
            assert!(throttle.wait_briefly().is_none());
        }
        throttle.rollback_all(permits);
        assert_at_rest(&throttle, limit);
    }
}

pub(crate) fn a_caller_that_need_not_wait_is_let_in_at_once(subject: &Subject) {
    let throttle = subject.with_limit(2);
    let permits = [
        throttle.wait_briefly().expect("there is room"),
        throttle.wait().expect("there is room"),
    ];
    assert_no_room(throttle.try_enter());
    throttle.rollback_all(permits);
    assert_at_rest(&throttle, 2);
}

pub(crate) fn wait_in_a_destructor_of_a_thread_is_admitted(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let waits = throttle.clone();
    let entered = in_destructors(move || waits.wait());
    throttle.rollback(permit);
    let mut count = 0;
    for permit in entered {
        throttle.rollback(permit.expect("nobody closes it"));
        count += 1;
    }
    assert_eq!(count, 3);
    assert_at_rest(&throttle, 1);
}

pub(crate) fn a_clone_shares_the_limit(subject: &Subject) {
    let throttle = subject.with_limit(2);
    let clone = throttle.clone();
    let permit = throttle.try_enter().unwrap();
    let other = clone.try_enter().unwrap();
    assert_no_room(throttle.try_enter());
    assert_no_room(clone.try_enter());
    // The handle does not matter.
    throttle.rollback(other);
    let third = clone.try_enter().unwrap();
    assert_no_room(throttle.try_enter());
    clone.rollback(permit);
    throttle.rollback(third);
    assert_at_rest(&clone, 2);
}

pub(crate) fn an_entry_that_is_undone_makes_room(subject: &Subject) {
    let throttle = subject.with_limit(1);
    for _ in 0..10 {
        let permit = throttle.try_enter().unwrap();
        assert_no_room(throttle.try_enter());
        throttle.rollback(permit);
    }
    assert_at_rest(&throttle, 1);
}

pub(crate) fn an_entry_that_is_dropped_makes_room(subject: &Subject) {
    let throttle = subject.with_limit(1);
    for _ in 0..10 {
        let permit = throttle.try_enter().unwrap();
        assert_no_room(throttle.try_enter());
        drop(permit);
    }
    assert_at_rest(&throttle, 1);
}

pub(crate) fn a_holder_that_panics_makes_room(subject: &Subject) {
    let throttle = subject.with_limit(2);
    for _ in 0..3 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _permits = fill(&throttle, 2);
            panic!("a holder that panics on purpose");
        }));
        assert!(panicked.is_err());
        assert_at_rest(&throttle, 2);
    }
}

pub(crate) fn closing_refuses_newcomers(subject: &Subject) {
    let throttle = subject.with_limit(2);
    let permit = throttle.try_enter().unwrap();
    throttle.close();
    let refuses = || {
        assert_eq!(kind(throttle.try_enter()), ErrorKind::Closed);
        assert_eq!(kind(throttle.wait()), ErrorKind::Closed);
        assert!(throttle.wait_briefly().is_none());
    };
    refuses();
    throttle.close();
    refuses();
    throttle.rollback(permit);
    refuses();
}

pub(crate) fn closing_ends_the_waits_of_threads(subject: &Subject) {
    let wait = |throttle: &AnyThrottle| throttle.wait();
    let end = |throttle: &AnyThrottle| throttle.close();
    // Often enough that now and then all of them are asleep.
    let held: Vec<_> = (0..20).map(|_| subject.held()).collect();
    let throttles: Vec<_> = held.iter().map(|(throttle, _)| throttle.clone()).collect();
    end_waits_of_threads(&throttles, ErrorKind::Closed, wait, end);
    for (throttle, permit) in held {
        throttle.rollback(permit);
    }
}

/// Lets three threads wait for each item in turn, and ends their waits when all three have begun. Asserts that each
/// wait is refused with `reason`.
pub(crate) fn end_waits_of_threads<T: Sync>(
    items: &[T],
    reason: ErrorKind,
    wait: impl Fn(&T) -> Entered + Sync,
    end: impl Fn(&T),
) {
    let begun = AtomicUsize::new(0);
    let wait_for_each = || {
        for item in items {
            begun.fetch_add(1, Ordering::SeqCst);
            assert_eq!(kind(wait(item)), reason);
        }
    };
    thread::scope(|scope| {
        let waits = [(); 3].map(|()| scope.spawn(wait_for_each));
        for (round, item) in (1..).zip(items) {
            while begun.load(Ordering::SeqCst) < 3 * round
                && !waits.iter().any(|it| it.is_finished())
            {
                thread::yield_now();
            }
            end(item);
        }
    });
}

const LIMIT: usize = 3;

/// Enters in one of three ways, chosen at random.
fn enter(throttle: &AnyThrottle, random: &mut Random) -> Option<AnyPermit> {
    match random.below(3) {
        0 => throttle.try_enter().ok(),
        1 => throttle.wait_briefly(),
        _ => throttle.wait().ok(),
    }
}

/// Stays inside for a while, together with the number of others that the counter gives.
fn stay(throttle: &AnyThrottle, permit: AnyPermit, inside: &AtomicUsize) {
    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
    assert!(now <= LIMIT, "too many are inside");
    thread::yield_now();
    inside.fetch_sub(1, Ordering::SeqCst);
    throttle.rollback(permit);
}

pub(crate) fn threads_never_exceed_the_limit(subject: &Subject) {
    let throttle = subject.with_limit(LIMIT);
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for seed in 0..5 {
            let (throttle, inside) = (&throttle, &inside);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..300 {
                    if let Some(permit) = enter(throttle, &mut random) {
                        stay(throttle, permit, inside);
                    }
                }
            });
        }
    });
    assert_at_rest(&throttle, LIMIT);
}

/// A throttle that is closed while threads enter and leave.
struct Closing {
    throttle: AnyThrottle,
    inside: AtomicUsize,
    entered: AtomicUsize,
    closed: AtomicBool,
}

pub(crate) fn nobody_enters_after_the_close_has_returned(subject: &Subject) {
    let closing = |_| Closing {
        throttle: subject.with_limit(LIMIT),
        inside: AtomicUsize::new(0),
        entered: AtomicUsize::new(0),
        closed: AtomicBool::new(false),
    };
    let rounds: Vec<_> = (0..50).map(closing).collect();
    let enter_until_closed = |seed| {
        let mut random = Random::new(seed);
        for round in &rounds {
            loop {
                let late = round.closed.load(Ordering::SeqCst);
                if let Some(permit) = enter(&round.throttle, &mut random) {
                    assert!(!late, "somebody came in after the close");
                    round.entered.fetch_add(1, Ordering::SeqCst);
                    stay(&round.throttle, permit, &round.inside);
                } else if late {
                    break;
                }
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| scope.spawn(move || enter_until_closed(seed)))
            .collect();
        for round in &rounds {
            while round.entered.load(Ordering::SeqCst) < 10
                && !threads.iter().any(|it| it.is_finished())
            {
                thread::yield_now();
            }
            round.throttle.close();
            round.closed.store(true, Ordering::SeqCst);
        }
    });
    for round in rounds {
        assert_eq!(kind(round.throttle.try_enter()), ErrorKind::Closed);
    }
}
