//! Parts whose permits are not held: a charge stays when it is dropped, and is refunded when it is
//! undone.

use tollgate::{BoxThrottle, ErrorKind, Semaphore, Throttle, all};

use crate::budget::Budget;
use crate::support::{Waiter, kind};

#[test]
fn what_the_caller_was_let_in_for_stays_charged() {
    let (slots, budget) = (Semaphore::new(1), Budget::new(3));
    let throttle = all((&slots, budget.clone()));
    drop(throttle.try_acquire().unwrap());
    drop(Waiter::new(throttle.acquire()).granted());
    assert_eq!((slots.available_permits(), budget.left()), (1, 1));
    throttle.rollback(throttle.try_acquire().unwrap());
    assert_eq!((slots.available_permits(), budget.left()), (1, 1));
}

#[test]
fn a_refusal_of_a_later_part_is_not_charged() {
    let (slots, budget) = (Semaphore::new(1), Budget::new(3));
    let held = slots.try_acquire().unwrap();
    let throttle = all((budget.clone(), &slots));
    for _ in 0..10 {
        assert_eq!(kind(throttle.try_acquire()), ErrorKind::NoPermits);
        assert_eq!(budget.left(), 3);
    }
    let mut waiter = Waiter::parked(throttle.acquire());
    assert_eq!(budget.left(), 2);
    slots.close();
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    assert_eq!(budget.left(), 3);
    drop(held);
}

#[test]
fn a_wait_that_is_given_up_is_not_charged() {
    let (slots, first, second) = (Semaphore::new(0), Budget::new(3), Budget::new(5));
    let throttle = all((first.clone(), second.clone(), &slots));
    let waiter = Waiter::parked(throttle.acquire());
    assert_eq!((first.left(), second.left()), (2, 4));
    drop(waiter);
    assert_eq!((first.left(), second.left()), (3, 5));
    let zero = std::time::Duration::ZERO;
    assert_eq!(
        kind(throttle.acquire().timeout(zero).wait()),
        ErrorKind::TimedOut
    );
    assert_eq!((first.left(), second.left()), (3, 5));
}

#[test]
fn a_refund_finds_its_way_through_what_is_made_of_throttles() {
    let (slots, budget) = (Semaphore::new(0), Budget::new(3));
    let nested = all((Some(budget.clone()), BoxThrottle::new(budget.clone())));
    let throttle = all((nested, &slots));
    let waiter = Waiter::parked(throttle.acquire());
    assert_eq!(budget.left(), 1);
    drop(waiter);
    assert_eq!(budget.left(), 3);
}

#[test]
fn a_budget_that_is_spent_gives_the_slot_back() {
    let (slots, budget) = (Semaphore::new(2), Budget::new(1));
    let throttle = all((&slots, budget.clone()));
    drop(throttle.try_acquire().unwrap());
    for refused in [throttle.try_acquire(), throttle.acquire().wait()] {
        let refused = refused.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.part()),
            (ErrorKind::RateLimited, Some(1))
        );
    }
    assert_eq!((slots.available_permits(), budget.left()), (2, 0));
}
