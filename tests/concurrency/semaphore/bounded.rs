//! A bounded line: past `max_waiters` callers are refused at once.

use tollgate::{ErrorKind, Semaphore};

use crate::support::{Waiter, assert_at_rest};

#[test]
fn past_the_bound_a_caller_is_refused_at_once() {
    let semaphore = Semaphore::new(1).max_waiters(2);
    let held = semaphore.try_acquire().unwrap();
    let mut first = Waiter::parked(semaphore.acquire());
    let mut second = Waiter::parked(semaphore.acquire());
    let refused = Waiter::new(semaphore.acquire()).refused();
    assert_eq!(refused, ErrorKind::QueueFull);
    assert_eq!(semaphore.waiting(), 2);
    drop(held);
    drop(first.granted());
    drop(second.granted());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn who_need_not_wait_is_not_refused() {
    let semaphore = Semaphore::new(2).max_waiters(0);
    let one = Waiter::new(semaphore.acquire()).granted();
    let two = Waiter::new(semaphore.acquire()).granted();
    let refused = Waiter::new(semaphore.acquire()).refused();
    assert_eq!(refused, ErrorKind::QueueFull);
    drop((one, two));
    assert_at_rest(&semaphore, 2);
}

#[test]
fn a_place_that_is_left_can_be_taken() {
    let semaphore = Semaphore::new(1).max_waiters(1);
    let held = semaphore.try_acquire().unwrap();
    drop(Waiter::parked(semaphore.acquire()));
    let mut waiter = Waiter::parked(semaphore.acquire());
    drop(held);
    // Once granted it stands in line no more.
    let mut next = Waiter::parked(semaphore.acquire());
    drop(waiter.granted());
    drop(next.granted());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn the_bound_counts_callers_whatever_they_ask_for() {
    let semaphore = Semaphore::new(9).max_waiters(2);
    let _held = semaphore.try_acquire_many(9).unwrap();
    let _nine = Waiter::parked(semaphore.acquire_many(9));
    let _one = Waiter::parked(semaphore.acquire());
    let refused = Waiter::new(semaphore.acquire()).refused();
    assert_eq!(refused, ErrorKind::QueueFull);
}

#[test]
fn who_is_in_line_already_may_poll_a_full_line() {
    let semaphore = Semaphore::new(1).max_waiters(1);
    let held = semaphore.try_acquire().unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire());
    assert!(waiter.is_pending());
    drop(held);
    drop(waiter.granted());
}

#[test]
fn a_request_that_can_never_be_met_says_so_even_when_the_line_is_full() {
    let semaphore = Semaphore::new(1).max_waiters(0);
    let _held = semaphore.try_acquire().unwrap();
    let refused = Waiter::new(semaphore.acquire_many(2)).refused();
    assert_eq!(refused, ErrorKind::ExceedsCapacity);
}

#[test]
fn the_bound_holds_during_a_pause() {
    let semaphore = Semaphore::new(0).max_waiters(1);
    let mut waiter = Waiter::parked(semaphore.acquire());
    let refused = Waiter::new(semaphore.acquire()).refused();
    assert_eq!(refused, ErrorKind::QueueFull);
    semaphore.set_permits(1);
    drop(waiter.granted());
}

#[test]
fn without_a_bound_everybody_may_wait() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut line: Vec<_> = (0..10_000)
        .map(|_| Waiter::parked(semaphore.acquire()))
        .collect();
    assert_eq!(semaphore.waiting(), 10_000);
    drop(held);
    for waiter in &mut line {
        drop(waiter.granted());
    }
    assert_at_rest(&semaphore, 1);
}
