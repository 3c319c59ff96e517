//! Checks without a future: they also hold for types that can only block a thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tollgate::{ErrorKind, Throttle, TryThrottle};

use super::subject::{AnyPermit, AnyThrottle, Subject, assert_at_rest, assert_no_room, fill};
use crate::support::kind;
use crate::support::random::Random;

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
    // Often enough that now and then all of them are asleep.
    for _ in 0..20 {
        let (throttle, permit) = subject.held();
        let refused = end_waits_of_threads(|| kind(throttle.wait()), || throttle.close());
        assert_eq!(refused, [ErrorKind::Closed; 3]);
        throttle.rollback(permit);
    }
}

/// Lets three threads begin to wait, ends their waits, and returns the outcomes.
pub(crate) fn end_waits_of_threads<T: Send>(
    wait: impl Fn() -> T + Sync,
    end: impl FnOnce(),
) -> Vec<T> {
    let begun = AtomicUsize::new(0);
    let wait = || {
        begun.fetch_add(1, Ordering::SeqCst);
        wait()
    };
    thread::scope(|scope| {
        let blocked: Vec<_> = (0..3).map(|_| scope.spawn(wait)).collect();
        while begun.load(Ordering::SeqCst) < 3 {
            thread::yield_now();
        }
        end();
        let ended = blocked.into_iter().map(|thread| thread.join().unwrap());
        ended.collect()
    })
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

pub(crate) fn nobody_enters_after_the_close_has_returned(subject: &Subject) {
    for round in 0..50 {
        let throttle = subject.with_limit(LIMIT);
        let (inside, entered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let closed = AtomicBool::new(false);
        thread::scope(|scope| {
            for seed in 0..4 {
                let (throttle, inside, entered, closed) = (&throttle, &inside, &entered, &closed);
                scope.spawn(move || {
                    let mut random = Random::new(100 * round + seed);
                    loop {
                        let late = closed.load(Ordering::SeqCst);
                        if let Some(permit) = enter(throttle, &mut random) {
                            assert!(!late, "somebody came in after the close");
                            entered.fetch_add(1, Ordering::SeqCst);
                            stay(throttle, permit, inside);
                        } else if late {
                            return;
                        }
                    }
                });
            }
            while entered.load(Ordering::SeqCst) < 10 {
                thread::yield_now();
            }
            throttle.close();
            closed.store(true, Ordering::SeqCst);
        });
        assert_eq!(kind(throttle.try_enter()), ErrorKind::Closed);
    }
}
