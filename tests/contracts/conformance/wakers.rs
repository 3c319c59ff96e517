//! Checks of the foreign code that a throttle runs: wakers, which may panic, or use the throttle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use tollgate::{ErrorKind, Throttle, TryThrottle};

use super::subject::{Subject, Wait, assert_at_rest, parked};
use crate::support::foreign::{
    calls_when_dropped, calls_when_woken, panic_message, panics_when_woken,
};
use crate::support::{Counter, Waiter, kind};

pub(crate) fn another_waker_displaces_the_old_one(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let mut waiting = parked(&throttle);
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    assert!(waiting.poll_with(&waker).is_pending());
    throttle.rollback(permit);
    assert_eq!(waiting.wakes(), 0);
    assert!(counter.count() > 0);
    throttle.rollback(waiting.granted());
    assert_at_rest(&throttle, 1);
}

pub(crate) fn no_waker_is_kept(subject: &Subject) {
    let throttle = subject.with_limit(1);
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let permit = throttle.try_enter().unwrap();
    let mut served = Waiter::parked_with(throttle.enter(), &waker);
    drop(Waiter::parked_with(throttle.enter(), &waker));
    throttle.rollback(permit);
    throttle.rollback(served.granted());
    drop((served, waker));
    assert_eq!(Arc::strong_count(&counter), 1);
}

/// This covers a waiter that was let in at once, one that was let in later, and one that was
/// refused.
pub(crate) fn a_wait_that_is_polled_again_panics_and_takes_nothing(subject: &Subject) {
    let again = |over: &mut Waiter<Wait>| {
        for _ in 0..2 {
            let message = panic_message(|| over.poll().is_ready()).expect("it did not panic");
            assert!(
                message.contains("polled again after it was ready"),
                "{message}"
            );
        }
    };
    let throttle = subject.with_limit(1);
    let mut at_once = Waiter::new(throttle.enter());
    let permit = at_once.granted();
    again(&mut at_once);
    let mut in_turn = parked(&throttle);
    throttle.rollback(permit);
    throttle.rollback(in_turn.granted());
    again(&mut in_turn);
    assert_at_rest(&throttle, 1);
    if subject.guarantees.closes {
        throttle.close();
        let mut refused = Waiter::new(throttle.enter());
        assert_eq!(refused.refused(), ErrorKind::Closed);
        again(&mut refused);
    }
}

/// This holds whether the waiter with that waker runs or leaves, with any waiters behind it and
/// after it.
pub(crate) fn a_waker_that_panics_loses_nothing(subject: &Subject) {
    for leaves in [false, true] {
        let (throttle, permit) = subject.held();
        let mut panics = Waiter::parked_with(throttle.enter(), &panics_when_woken());
        let mut behind = parked(&throttle);
        throttle.rollback(permit);
        if leaves {
            drop(panics);
        } else {
            throttle.rollback(panics.granted());
        }
        assert!(behind.wakes() > 0);
        throttle.rollback(behind.granted());
        assert_at_rest(&throttle, 1);
    }
}

/// The same when the end of another wait wakes it.
pub(crate) fn a_waker_that_panics_behind_a_wait_that_ends_loses_nothing(subject: &Subject) {
    for leaves in [false, true] {
        let (throttle, permit) = subject.held();
        let mut woken = parked(&throttle);
        let mut panics = Waiter::parked_with(throttle.enter(), &panics_when_woken());
        throttle.rollback(permit);
        if leaves {
            drop(woken);
        } else {
            throttle.rollback(woken.granted());
        }
        throttle.rollback(panics.granted());
        let permit = throttle.try_enter().unwrap();
        let mut later = parked(&throttle);
        throttle.rollback(permit);
        assert!(later.wakes() > 0);
        throttle.rollback(later.granted());
        assert_at_rest(&throttle, 1);
    }
}

/// A panic inside a panic would end the process if it left the permit's drop.
pub(crate) fn a_holder_that_panics_may_wake_a_waker_that_panics(subject: &Subject) {
    let throttle = subject.with_limit(1);
    let mut panics = Waiter::new(throttle.enter());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _permit = throttle.try_enter().unwrap();
        assert!(panics.poll_with(&panics_when_woken()).is_pending());
        panic!("a holder that panics on purpose");
    }));
    assert!(panicked.is_err());
    drop(panics.granted());
    assert_at_rest(&throttle, 1);
}

pub(crate) fn closing_wakes_all_although_a_waker_panics(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let mut in_front = parked(&throttle);
    let mut panics = Waiter::parked_with(throttle.enter(), &panics_when_woken());
    let mut behind = [(); 3].map(|()| parked(&throttle));
    throttle.close();
    for waiting in behind.iter_mut().chain([&mut in_front]) {
        assert!(waiting.wakes() > 0);
        assert_eq!(waiting.refused(), ErrorKind::Closed);
    }
    assert_eq!(panics.refused(), ErrorKind::Closed);
    assert_eq!(kind(throttle.try_enter()), ErrorKind::Closed);
    throttle.rollback(permit);
}

/// A call under the lock would deadlock: by a return, by a wait that is dropped before and after its
/// wake, by a waker that replaces another one, and by a close.
pub(crate) fn a_waker_may_use_the_throttle(subject: &Subject) {
    let throttle = subject.with_limit(1);
    let calls = Arc::new(AtomicUsize::new(0));
    let callback = || {
        let (throttle, calls) = (throttle.clone(), Arc::clone(&calls));
        move || {
            if let Ok(permit) = throttle.try_enter() {
                throttle.rollback(permit);
            }
            drop(Waiter::new(throttle.enter()).poll());
            calls.fetch_add(1, Ordering::SeqCst);
        }
    };
    let called = || calls.swap(0, Ordering::SeqCst);
    let wait = |waker: Waker| Waiter::parked_with(throttle.enter(), &waker);
    let permit = throttle.try_enter().unwrap();
    let mut woken = wait(calls_when_woken(callback()));
    let next = wait(calls_when_woken(callback()));
    let mut displaced = wait(calls_when_dropped(callback()));
    let leaves = wait(calls_when_dropped(callback()));
    let mut last = wait(calls_when_dropped(callback()));
    throttle.rollback(permit);
    assert!(called() > 0, "by a return");
    throttle.rollback(woken.granted());
    assert!(called() > 0, "by a return");
    drop(leaves);
    assert!(called() > 0, "by a wait that is dropped");
    assert!(displaced.is_pending());
    assert!(called() > 0, "by another waker");
    // The next one has been woken, and leaves its grant to others.
    drop(next);
    throttle.rollback(displaced.granted());
    throttle.rollback(last.granted());
    drop(last);
    assert!(called() > 0, "by a wait that is over");
    assert_at_rest(&throttle, 1);
    if subject.guarantees.closes {
        let permit = throttle.try_enter().unwrap();
        let mut closed = wait(calls_when_woken(callback()));
        throttle.close();
        assert!(called() > 0, "by a close");
        assert_eq!(closed.refused(), ErrorKind::Closed);
        throttle.rollback(permit);
    }
}
