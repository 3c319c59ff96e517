//! A semaphore of which each entry asks for a number of its own.

use std::sync::Arc;

use tollgate::{ErrorKind, Semaphore, Throttle, TryThrottle};

use crate::support::{Waiter, assert_at_rest, kind};

/// The same for both ways to share a semaphore.
macro_rules! for_both {
    ($($name:ident($cost:ident, $semaphore:ident) $body:block)*) => {
        mod borrowed {
            use super::*;
            $(#[test]
            fn $name() {
                let $semaphore = Semaphore::new(10);
                let $cost = |permits| $semaphore.cost(permits);
                $body
            })*
        }

        mod shared {
            use super::*;
            $(#[test]
            fn $name() {
                let $semaphore = Arc::new(Semaphore::new(10));
                let $cost = |permits| Arc::clone(&$semaphore).cost_owned(permits);
                $body
            })*
        }
    };
}

for_both! {
    each_entry_asks_for_the_cost(cost, semaphore) {
        let throttle = cost(4);
        assert_eq!(throttle.cost(), 4);
        let first = throttle.try_enter().unwrap();
        assert_eq!((first.count(), semaphore.available_permits()), (4, 6));
        let second = Waiter::new(throttle.enter()).granted();
        assert_eq!((second.count(), semaphore.available_permits()), (4, 2));
        assert_eq!(kind(throttle.try_enter()), ErrorKind::NoPermits);
        let mut waiter = Waiter::parked(throttle.clone().enter());
        throttle.rollback(first);
        assert_eq!(waiter.granted().count(), 4);
        drop(second);
        assert_at_rest(&semaphore, 10);
    }

    nothing_costs_nothing_and_never_waits(cost, semaphore) {
        let held = semaphore.try_acquire_many(10).unwrap();
        let in_line = Waiter::parked(semaphore.acquire());
        let throttle = cost(0);
        assert_eq!(throttle.try_enter().unwrap().count(), 0);
        let nothing = Waiter::new(throttle.enter()).granted();
        assert_eq!(nothing.count(), 0);
        throttle.rollback(nothing);
        assert_eq!(semaphore.available_permits(), 0);
        drop((in_line, held));
        semaphore.close();
        assert_eq!(kind(throttle.try_enter()), ErrorKind::Closed);
        assert_eq!(Waiter::new(throttle.enter()).refused(), ErrorKind::Closed);
    }

    more_than_the_limit_is_refused_at_once(cost, semaphore) {
        let throttle = cost(11);
        let refused = [
            throttle.try_enter().unwrap_err(),
            Waiter::new(throttle.enter()).output().unwrap_err(),
        ];
        for refused in refused {
            assert_eq!(refused.kind(), ErrorKind::ExceedsCapacity);
            assert_eq!((refused.capacity(), refused.part()), (Some(10), None));
        }
        semaphore.set_permits(11);
        drop(throttle.try_enter().unwrap());
        assert_eq!(kind(cost(u32::MAX).try_enter()), ErrorKind::ExceedsCapacity);
        assert_at_rest(&semaphore, 11);
    }

    a_cheap_entry_waits_behind_a_dear_one(cost, semaphore) {
        let held = semaphore.try_acquire_many(5).unwrap();
        let mut dear = Waiter::parked(cost(8).enter());
        let mut cheap = Waiter::parked(cost(1).enter());
        assert_eq!(semaphore.available_permits(), 5);
        drop(held);
        assert_eq!(dear.granted().count() + cheap.granted().count(), 9);
        assert_at_rest(&semaphore, 10);
    }
}

#[test]
fn who_shares_keeps_the_semaphore_alive() {
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
