//! A semaphore whose entries each ask for a number of their own.

use std::sync::Arc;

use tollgate::{ErrorKind, Semaphore, Throttle, TryThrottle};

use crate::support::{Waiter, assert_at_rest, kind};

#[test]
fn each_entry_asks_for_the_cost() {
    let semaphore = Arc::new(Semaphore::new(10));
    let throttle = semaphore.cost(4);
    assert_eq!(
        (throttle.cost(), Arc::clone(&semaphore).cost_owned(7).cost()),
        (4, 7)
    );
    let first = throttle.try_enter().unwrap();
    assert_eq!((first.count(), semaphore.available_permits()), (4, 6));
    let second = Waiter::new(throttle.enter()).granted();
    assert_eq!((second.count(), semaphore.available_permits()), (4, 2));
    let mut waiter = Waiter::parked(Arc::clone(&semaphore).cost_owned(3).enter());
    throttle.rollback(first);
    assert_eq!(waiter.granted().count(), 3);
    drop(second);
    assert_at_rest(&semaphore, 10);
}

#[test]
fn nothing_costs_nothing_and_never_waits() {
    let semaphore = Semaphore::new(10);
    let held = semaphore.try_acquire_many(10).unwrap();
    let waiting = Waiter::parked(semaphore.acquire());
    let throttle = semaphore.cost(0);
    assert_eq!(throttle.try_enter().unwrap().count(), 0);
    let nothing = Waiter::new(throttle.enter()).granted();
    assert_eq!(nothing.count(), 0);
    throttle.rollback(nothing);
    assert_eq!(semaphore.available_permits(), 0);
    drop((waiting, held));
    semaphore.close();
    assert_eq!(kind(throttle.try_enter()), ErrorKind::Closed);
}

#[test]
fn more_than_the_limit_is_refused_at_once() {
    let semaphore = Arc::new(Semaphore::new(10));
    let (throttle, owned) = (
        semaphore.cost(11),
        Arc::clone(&semaphore).cost_owned(u32::MAX),
    );
    let refused = [
        throttle.try_enter().unwrap_err(),
        throttle.enter().wait().unwrap_err(),
        owned.try_enter().unwrap_err(),
        owned.enter().wait().unwrap_err(),
    ];
    for refused in refused {
        assert_eq!(refused.kind(), ErrorKind::ExceedsCapacity);
        assert_eq!((refused.capacity(), refused.part()), (Some(10), None));
    }
    semaphore.set_permits(11);
    drop(throttle.try_enter().unwrap());
    assert_at_rest(&semaphore, 11);
}

#[test]
fn an_owned_cost_keeps_the_semaphore_alive() {
    let semaphore = Arc::new(Semaphore::new(2));
    let weak = Arc::downgrade(&semaphore);
    let throttle = semaphore.cost_owned(2);
    let permit = throttle.try_enter().unwrap();
    let waiter = Waiter::parked(throttle.enter());
    drop(throttle);
    drop(permit);
    assert!(weak.upgrade().is_some());
    drop(waiter);
    assert!(weak.upgrade().is_none());
}

#[test]
fn debug_shows_the_cost() {
    let semaphore = Semaphore::new(2);
    let shown = format!("{:?}", semaphore.cost(7));
    assert!(
        shown.starts_with("Cost") && shown.contains("cost: 7"),
        "{shown}"
    );
}
