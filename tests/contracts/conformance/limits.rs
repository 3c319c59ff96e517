//! The checks that need no future: they hold for what can only block a thread as well.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tollgate::ErrorKind;

use super::subject::{Limit, assert_at_rest, assert_no_room, fill};
use crate::support::kind;
use crate::support::random::Random;

pub(crate) fn at_the_limit_nobody_is_let_in<L: Limit>() {
    for limit in 1..5 {
        let handle = L::with_limit(limit);
        let permits = fill::<L>(&handle, limit);
        for _ in 0..3 {
            assert_no_room(L::try_enter(&handle));
            assert!(L::wait_briefly(&handle).is_none());
        }
        for permit in permits {
            L::rollback(&handle, permit);
        }
        assert_at_rest::<L>(&handle, limit);
    }
}

pub(crate) fn a_caller_that_need_not_wait_is_let_in_at_once<L: Limit>() {
    let handle = L::with_limit(2);
    let permits = [
        L::wait_briefly(&handle).expect("there is room"),
        L::wait(&handle).expect("there is room"),
    ];
    assert_no_room(L::try_enter(&handle));
    for permit in permits {
        L::rollback(&handle, permit);
    }
    assert_at_rest::<L>(&handle, 2);
}

pub(crate) fn a_clone_shares_the_limit<L: Limit>() {
    let handle = L::with_limit(2);
    let clone = handle.clone();
    let permit = L::try_enter(&handle).unwrap();
    let other = L::try_enter(&clone).unwrap();
    assert_no_room(L::try_enter(&handle));
    assert_no_room(L::try_enter(&clone));
    // It does not matter by which handle.
    L::rollback(&handle, other);
    let third = L::try_enter(&clone).unwrap();
    assert_no_room(L::try_enter(&handle));
    L::rollback(&clone, permit);
    L::rollback(&handle, third);
    assert_at_rest::<L>(&clone, 2);
}

pub(crate) fn an_entry_that_is_undone_makes_room<L: Limit>() {
    let handle = L::with_limit(1);
    for _ in 0..10 {
        let permit = L::try_enter(&handle).unwrap();
        assert_no_room(L::try_enter(&handle));
        L::rollback(&handle, permit);
    }
    assert_at_rest::<L>(&handle, 1);
}

pub(crate) fn an_entry_that_is_dropped_makes_room<L: Limit>() {
    if !L::GUARANTEES.held {
        return;
    }
    let handle = L::with_limit(1);
    for _ in 0..10 {
        let permit = L::try_enter(&handle).unwrap();
        assert_no_room(L::try_enter(&handle));
        drop(permit);
    }
    assert_at_rest::<L>(&handle, 1);
}

pub(crate) fn a_holder_that_panics_makes_room<L: Limit>() {
    if !L::GUARANTEES.held {
        return;
    }
    let handle = L::with_limit(2);
    for _ in 0..3 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _permits = fill::<L>(&handle, 2);
            panic!("a holder that panics on purpose");
        }));
        assert!(panicked.is_err());
        assert_at_rest::<L>(&handle, 2);
    }
}

pub(crate) fn closing_refuses_newcomers<L: Limit>() {
    if !L::GUARANTEES.closes {
        return;
    }
    let handle = L::with_limit(2);
    let permit = L::try_enter(&handle).unwrap();
    L::close(&handle);
    let refuses = || {
        assert_eq!(kind(L::try_enter(&handle)), ErrorKind::Closed);
        assert_eq!(kind(L::wait(&handle)), ErrorKind::Closed);
        assert!(L::wait_briefly(&handle).is_none());
    };
    refuses();
    L::close(&handle);
    refuses();
    L::rollback(&handle, permit);
    refuses();
}

pub(crate) fn closing_ends_the_waits_of_threads<L: Limit>() {
    if !L::GUARANTEES.closes {
        return;
    }
    // Often enough that now and then all of them are asleep.
    for _ in 0..20 {
        let handle = L::with_limit(1);
        let permit = L::try_enter(&handle).unwrap();
        let begun = AtomicUsize::new(0);
        let wait = || {
            begun.fetch_add(1, Ordering::SeqCst);
            kind(L::wait(&handle))
        };
        thread::scope(|scope| {
            let blocked: Vec<_> = (0..3).map(|_| scope.spawn(wait)).collect();
            while begun.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
            L::close(&handle);
            for thread in blocked {
                assert_eq!(thread.join().unwrap(), ErrorKind::Closed);
            }
        });
        L::rollback(&handle, permit);
    }
}

const LIMIT: usize = 3;

/// Enters in one of three ways, chosen at random.
fn enter<L: Limit>(handle: &L::Handle, random: &mut Random) -> Option<L::Permit> {
    match random.below(3) {
        0 => L::try_enter(handle).ok(),
        1 => L::wait_briefly(handle),
        _ => L::wait(handle).ok(),
    }
}

/// Is inside for a while, together with how many others the counter says.
fn stay<L: Limit>(handle: &L::Handle, permit: L::Permit, inside: &AtomicUsize) {
    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
    assert!(now <= LIMIT, "too many are inside");
    thread::yield_now();
    inside.fetch_sub(1, Ordering::SeqCst);
    L::rollback(handle, permit);
}

pub(crate) fn threads_never_exceed_the_limit<L: Limit>() {
    let handle = L::with_limit(LIMIT);
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for seed in 0..5 {
            let (handle, inside) = (&handle, &inside);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..300 {
                    if let Some(permit) = enter::<L>(handle, &mut random) {
                        stay::<L>(handle, permit, inside);
                    }
                }
            });
        }
    });
    assert_at_rest::<L>(&handle, LIMIT);
}

pub(crate) fn nobody_enters_after_the_close_has_returned<L: Limit>() {
    if !L::GUARANTEES.closes || !L::GUARANTEES.closes_at_once {
        return;
    }
    for round in 0..50 {
        let handle = L::with_limit(LIMIT);
        let (inside, entered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let closed = AtomicBool::new(false);
        thread::scope(|scope| {
            for seed in 0..4 {
                let (handle, inside, entered, closed) = (&handle, &inside, &entered, &closed);
                scope.spawn(move || {
                    let mut random = Random::new(100 * round + seed);
                    loop {
                        let late = closed.load(Ordering::SeqCst);
                        if let Some(permit) = enter::<L>(handle, &mut random) {
                            assert!(!late, "somebody came in after the close");
                            entered.fetch_add(1, Ordering::SeqCst);
                            stay::<L>(handle, permit, inside);
                        } else if late {
                            return;
                        }
                    }
                });
            }
            while entered.load(Ordering::SeqCst) < 10 {
                thread::yield_now();
            }
            L::close(&handle);
            closed.store(true, Ordering::SeqCst);
        });
        assert_eq!(kind(L::try_enter(&handle)), ErrorKind::Closed);
    }
}
