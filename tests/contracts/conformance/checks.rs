//! The checks of one wait, polled by hand.

use std::task::Poll;

use tollgate::fair::FairQueue;
use tollgate::{ErrorKind, Throttle, TryThrottle};

use super::subject::{Subject, assert_at_rest, assert_no_room, fill, held, parked};
use crate::support::Waiter;

pub(crate) fn an_entry_is_ready_while_there_is_room<S: Subject>() {
    let throttle = S::with_limit(3);
    let permits: Vec<_> = (0..3)
        .map(|_| Waiter::new(throttle.enter()).granted())
        .collect();
    let waiting = parked::<S>(&throttle);
    drop(waiting);
    for permit in permits {
        throttle.rollback(permit);
    }
    assert_at_rest::<S>(&throttle, 3);
}

pub(crate) fn enter_now_while_a_try_is_admitted_admits<S: Subject>() {
    let throttle = S::with_limit(3);
    let mut permits = Vec::new();
    while let Ok(tried) = throttle.try_enter() {
        throttle.rollback(tried);
        permits.push(throttle.enter_now().expect("a try was admitted"));
    }
    assert_eq!(permits.len(), 3);
    assert!(throttle.enter_now().is_none());
    assert!((&&throttle).enter_now().is_none());
    throttle.rollback(permits.remove(0));
    permits.push((&&throttle).enter_now().expect("there is room"));
    for permit in permits {
        throttle.rollback(permit);
    }
    assert_at_rest::<S>(&throttle, 3);
}

pub(crate) fn acquire_in_a_fair_queue_without_room_to_wait_admits_while_there_is_room<
    S: Subject,
>() {
    let throttle = S::with_limit(3);
    let class = FairQueue::new(throttle.clone()).max_waiters(0).class("a");
    let permits: Vec<_> = (0..3)
        .map(|_| Waiter::new(class.acquire()).granted())
        .collect();
    let refused = Waiter::new(class.acquire()).refused();
    assert_eq!(refused, ErrorKind::QueueFull);
    for permit in permits {
        class.rollback(permit);
    }
    drop(class);
    assert_at_rest::<S>(&throttle, 3);
}

pub(crate) fn making_an_entry_takes_nothing<S: Subject>() {
    let throttle = S::with_limit(1);
    let entries: Vec<_> = (0..3).map(|_| throttle.enter()).collect();
    assert_at_rest::<S>(&throttle, 1);
    drop(entries);
    assert_at_rest::<S>(&throttle, 1);
}

pub(crate) fn a_waiter_is_woken_when_there_is_room<S: Subject>() {
    let throttle = S::with_limit(2);
    let mut permits = fill::<S>(&throttle, 2);
    let mut waiting = parked::<S>(&throttle);
    assert_eq!(waiting.wakes(), 0);
    throttle.rollback(permits.remove(0));
    assert!(waiting.wakes() > 0);
    permits.push(waiting.granted());
    assert_no_room(throttle.try_enter());
    for permit in permits {
        throttle.rollback(permit);
    }
    assert_at_rest::<S>(&throttle, 2);
}

pub(crate) fn a_waiter_that_gives_up_holds_nobody_back<S: Subject>() {
    let (throttle, permit) = held::<S>();
    let mut waiters: Vec<_> = (0..5).map(|_| parked::<S>(&throttle)).collect();
    // The first one, one in the middle, and the last one.
    for gives_up in [4, 2, 0] {
        drop(waiters.remove(gives_up));
    }
    throttle.rollback(permit);
    for waiting in &mut waiters {
        throttle.rollback(waiting.granted());
    }
    assert_at_rest::<S>(&throttle, 1);
}

pub(crate) fn granted_then_dropped_is_passed_on<S: Subject>() {
    let (throttle, permit) = held::<S>();
    let woken = parked::<S>(&throttle);
    let mut next = parked::<S>(&throttle);
    throttle.rollback(permit);
    assert!(woken.wakes() > 0);
    drop(woken);
    assert!(next.wakes() > 0);
    throttle.rollback(next.granted());
    // And with nobody to pass it on to.
    let permit = throttle.try_enter().unwrap();
    let woken = parked::<S>(&throttle);
    throttle.rollback(permit);
    drop(woken);
    assert_at_rest::<S>(&throttle, 1);
}

pub(crate) fn never_polled_holds_nobody_back<S: Subject>() {
    let (throttle, permit) = held::<S>();
    let stored: Vec<_> = (0..5).map(|_| Waiter::new(throttle.enter())).collect();
    let mut waiting = parked::<S>(&throttle);
    throttle.rollback(permit);
    throttle.rollback(waiting.granted());
    for mut entry in stored {
        throttle.rollback(entry.granted());
    }
    assert_at_rest::<S>(&throttle, 1);
}

pub(crate) fn not_polled_and_then_dropped_holds_nobody_back<S: Subject>() {
    let (throttle, permit) = held::<S>();
    let aside = parked::<S>(&throttle);
    let mut behind = parked::<S>(&throttle);
    throttle.rollback(permit);
    // Where overtaking is possible, it may be let in at once.
    let permit = match behind.poll() {
        Poll::Ready(entered) => entered.unwrap(),
        Poll::Pending => {
            drop(aside);
            behind.granted()
        }
    };
    throttle.rollback(permit);
    drop(behind);
    assert_at_rest::<S>(&throttle, 1);
}

pub(crate) fn polling_in_vain_changes_nothing<S: Subject>() {
    let (throttle, permit) = held::<S>();
    let mut first = parked::<S>(&throttle);
    let mut second = parked::<S>(&throttle);
    for _ in 0..10 {
        assert!(second.is_pending() && first.is_pending());
    }
    throttle.rollback(permit);
    throttle.rollback(first.granted());
    throttle.rollback(second.granted());
    assert_at_rest::<S>(&throttle, 1);
}
