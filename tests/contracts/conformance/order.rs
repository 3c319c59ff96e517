//! The checks of who is woken and let in, when.

use std::task::Poll;

use tollgate::{ErrorKind, Throttle, TryThrottle};

use super::subject::{Subject, assert_at_rest, assert_no_room, fill, held, parked};
use crate::support::{Waiter, kind};

pub(crate) fn a_clone_shares_the_queue<S: Subject>() {
    let throttle = S::with_limit(1);
    let clone = throttle.clone();
    let permit = throttle.try_enter().unwrap();
    let mut waiting = parked::<S>(&clone);
    throttle.rollback(permit);
    let permit = waiting.granted();
    let mut waiting = parked::<S>(&throttle);
    clone.rollback(permit);
    throttle.rollback(waiting.granted());
    assert_at_rest::<S>(&clone, 1);
}

pub(crate) fn a_permit_that_is_dropped_wakes<S: Subject>() {
    if !S::GUARANTEES.held {
        return;
    }
    let (throttle, permit) = held::<S>();
    let mut waiting = parked::<S>(&throttle);
    drop(permit);
    assert!(waiting.wakes() > 0);
    drop(waiting.granted());
    assert_at_rest::<S>(&throttle, 1);
}

pub(crate) fn the_first_waiter_is_woken_first<S: Subject>() {
    let (throttle, permit) = held::<S>();
    let mut waiters: Vec<_> = (0..20).map(|_| parked::<S>(&throttle)).collect();
    throttle.rollback(permit);
    let woken = |waiting: &Waiter<_>| waiting.wakes() > 0;
    assert!(woken(&waiters[0]) && !waiters[1..].iter().any(woken));
    // The next waiter takes the turn of one that gives up.
    drop(waiters.remove(0));
    assert!(woken(&waiters[0]) && !waiters[1..].iter().any(woken));
    throttle.rollback(waiters[0].granted());
    drop(waiters);
    assert_at_rest::<S>(&throttle, 1);
}

pub(crate) fn waiters_are_let_in_in_the_order_in_which_they_joined<S: Subject>() {
    if !S::GUARANTEES.order {
        return;
    }
    let throttle = S::with_limit(1);
    let mut permit = throttle.try_enter().unwrap();
    let mut waiters: Vec<_> = (0..20).map(|_| parked::<S>(&throttle)).collect();
    for next in 0..waiters.len() {
        throttle.rollback(permit);
        assert!(waiters[next + 1..].iter_mut().all(Waiter::is_pending));
        permit = waiters[next].granted();
    }
    throttle.rollback(permit);
    assert_at_rest::<S>(&throttle, 1);
}

pub(crate) fn several_returns_let_as_many_in<S: Subject>() {
    const CROWD: usize = 40;
    let throttle = S::with_limit(CROWD);
    let permits = fill::<S>(&throttle, CROWD);
    let mut waiters: Vec<_> = (0..CROWD).map(|_| parked::<S>(&throttle)).collect();
    // All come back before anybody has run.
    for permit in permits {
        throttle.rollback(permit);
    }
    let woken = waiters.iter().filter(|waiting| waiting.wakes() > 0).count();
    assert_eq!(woken == CROWD, S::GUARANTEES.wakes_each);
    // Each in its turn has been woken by then, at the latest when the one before it has run.
    let permits: Vec<_> = waiters
        .iter_mut()
        .map(|waiting| {
            assert!(waiting.wakes() > 0);
            waiting.granted()
        })
        .collect();
    for permit in permits {
        throttle.rollback(permit);
    }
    assert_at_rest::<S>(&throttle, CROWD);
}

/// The same when those who have been woken give up instead.
pub(crate) fn several_returns_pass_waiters_by_that_give_up<S: Subject>() {
    const CROWD: usize = 10;
    let throttle = S::with_limit(CROWD);
    let permits = fill::<S>(&throttle, CROWD);
    let give_up: Vec<_> = (0..CROWD).map(|_| parked::<S>(&throttle)).collect();
    let mut behind: Vec<_> = (0..CROWD).map(|_| parked::<S>(&throttle)).collect();
    for permit in permits {
        throttle.rollback(permit);
    }
    drop(give_up);
    let permits: Vec<_> = behind
        .iter_mut()
        .map(|waiting| {
            assert!(waiting.wakes() > 0);
            waiting.granted()
        })
        .collect();
    for permit in permits {
        throttle.rollback(permit);
    }
    assert_at_rest::<S>(&throttle, CROWD);
}

pub(crate) fn newcomers_do_not_overtake<S: Subject>() {
    if !S::GUARANTEES.no_overtaking {
        return;
    }
    let (throttle, permit) = held::<S>();
    let mut woken = parked::<S>(&throttle);
    throttle.rollback(permit);
    assert_no_room(throttle.try_enter());
    let mut newcomer = parked::<S>(&throttle);
    let permit = woken.granted();
    assert!(newcomer.is_pending());
    throttle.rollback(permit);
    throttle.rollback(newcomer.granted());
    assert_at_rest::<S>(&throttle, 1);
}

/// What a newcomer takes can be missing only to the one that it was meant for.
pub(crate) fn a_waiter_that_was_overtaken_is_let_in_later<S: Subject>() {
    let throttle = S::with_limit(2);
    let mut permits = fill::<S>(&throttle, 2);
    let mut overtaken = parked::<S>(&throttle);
    throttle.rollback(permits.remove(0));
    let overtakes = throttle.try_enter();
    assert_eq!(overtakes.is_err(), S::GUARANTEES.no_overtaking);
    if let Ok(permit) = overtakes {
        assert!(overtaken.is_pending());
        let seen = overtaken.wakes();
        throttle.rollback(permits.remove(0));
        assert!(overtaken.wakes() > seen);
        permits.push(permit);
    }
    permits.push(overtaken.granted());
    assert_no_room(throttle.try_enter());
    for permit in permits {
        throttle.rollback(permit);
    }
    assert_at_rest::<S>(&throttle, 2);
}

pub(crate) fn closing_refuses_everybody<S: Subject>() {
    if !S::GUARANTEES.closes {
        return;
    }
    let throttle = S::with_limit(2);
    let permits = fill::<S>(&throttle, 2);
    let mut waiters: Vec<_> = (0..20).map(|_| parked::<S>(&throttle)).collect();
    let made_before = throttle.enter();
    S::close(&throttle);
    for waiting in &mut waiters {
        assert!(waiting.wakes() > 0);
        assert_eq!(waiting.refused(), ErrorKind::Closed);
    }
    for permit in permits {
        throttle.rollback(permit);
    }
    assert_eq!(kind(throttle.try_enter()), ErrorKind::Closed);
    assert_eq!(Waiter::new(made_before).refused(), ErrorKind::Closed);
    assert_eq!(Waiter::new(throttle.enter()).refused(), ErrorKind::Closed);
}

/// A waiter that had been woken for a permit either has it or is refused; nobody is left waiting.
pub(crate) fn closing_after_a_return_leaves_nobody_waiting<S: Subject>() {
    if !S::GUARANTEES.closes {
        return;
    }
    let throttle = S::with_limit(2);
    let mut permits = fill::<S>(&throttle, 2);
    let mut waiters: Vec<_> = (0..5).map(|_| parked::<S>(&throttle)).collect();
    throttle.rollback(permits.remove(0));
    S::close(&throttle);
    let mut entered = 0;
    for waiting in &mut waiters {
        assert!(waiting.wakes() > 0);
        let Poll::Ready(output) = waiting.poll() else {
            panic!("still waiting");
        };
        match output {
            Ok(permit) => {
                entered += 1;
                throttle.rollback(permit);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        }
    }
    // Only by what was given to it before the close.
    assert!(entered <= 1);
    throttle.rollback(permits.remove(0));
    assert_eq!(kind(throttle.try_enter()), ErrorKind::Closed);
}
