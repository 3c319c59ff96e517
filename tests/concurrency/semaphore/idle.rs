//! Waiting until everything has come back.

use std::sync::{Arc, Mutex};
use std::task::Poll;

use tollgate::Semaphore;

use crate::support::foreign::calls_when_woken;
use crate::support::{Waiter, assert_at_rest, poll_once};

#[test]
fn an_idle_semaphore_is_idle_at_once() {
    for permits in [0, 1, 5] {
        let semaphore = Semaphore::new(permits);
        assert!(poll_once(&mut semaphore.wait_idle()).is_ready());
        semaphore.close();
        assert!(poll_once(&mut semaphore.wait_idle()).is_ready());
    }
}

#[test]
fn it_ends_when_the_last_permit_has_come_back() {
    let semaphore = Semaphore::new(3);
    let one = semaphore.try_acquire().unwrap();
    let two = semaphore.try_acquire_many(2).unwrap();
    let mut idle = Waiter::parked(semaphore.wait_idle());
    drop(two);
    assert!(idle.is_pending());
    assert_eq!(idle.wakes(), 0);
    drop(one);
    assert_eq!(idle.wakes(), 1);
    idle.output();
    assert_at_rest(&semaphore, 3);
}

#[test]
fn it_does_not_hold_newcomers_back_and_is_not_in_line() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire().unwrap();
    let mut idle = Waiter::parked(semaphore.wait_idle());
    assert_eq!(semaphore.waiting(), 0);
    let other = semaphore.try_acquire().unwrap();
    drop(held);
    assert!(idle.is_pending());
    drop(other);
    idle.output();
}

#[test]
fn it_does_not_count_against_the_bound_of_the_line() {
    let semaphore = Semaphore::new(1).max_waiters(0);
    let held = semaphore.try_acquire().unwrap();
    let mut idle = Waiter::parked(semaphore.wait_idle());
    drop(held);
    idle.output();
}

#[test]
fn several_are_told_together() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut all: Vec<_> = (0..40)
        .map(|_| Waiter::parked(semaphore.wait_idle()))
        .collect();
    drop(held);
    for idle in &mut all {
        assert_eq!(idle.wakes(), 1);
        idle.output();
    }
    assert_at_rest(&semaphore, 1);
}

#[test]
fn one_that_gives_up_leaves_the_others_waiting() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let first = Waiter::parked(semaphore.wait_idle());
    let mut second = Waiter::parked(semaphore.wait_idle());
    let third = Waiter::parked(semaphore.wait_idle());
    drop((first, third));
    assert!(second.is_pending());
    drop(held);
    second.output();
    assert_at_rest(&semaphore, 1);
}

#[test]
fn the_moment_counts_although_it_has_passed() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut idle = Waiter::parked(semaphore.wait_idle());
    drop(held);
    let held = semaphore.try_acquire().unwrap();
    assert_eq!(idle.poll(), Poll::Ready(()));
    drop(held);
}

/// A crowd of them is told in several portions; who was told first may have the permit again
/// before the last one is told.
#[test]
fn the_moment_counts_for_everybody_who_waited_for_it() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let taken = Arc::new(Mutex::new(None));
    let mut first = Waiter::new(semaphore.wait_idle());
    let waker = calls_when_woken({
        let (semaphore, taken) = (Arc::clone(&semaphore), Arc::clone(&taken));
        move || *taken.lock().unwrap() = Arc::clone(&semaphore).try_acquire_owned().ok()
    });
    assert!(first.poll_with(&waker).is_pending());
    let others: Vec<_> = (0..40)
        .map(|_| Waiter::parked(semaphore.wait_idle()))
        .collect();

    drop(held);
    assert!(taken.lock().unwrap().is_some());
    let told = others.iter().filter(|idle| idle.wakes() == 1).count();
    assert_eq!(told, others.len());
}

#[test]
fn a_permit_that_is_passed_on_has_not_come_back() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut idle = Waiter::parked(semaphore.wait_idle());
    let mut next = Waiter::parked(semaphore.acquire());
    drop(held);
    assert!(idle.is_pending());
    // Granted, and not collected: still out.
    assert_eq!(next.wakes(), 1);
    let permit = next.granted();
    assert!(idle.is_pending());
    drop(permit);
    idle.output();
}

#[test]
fn a_grant_that_is_dropped_comes_back() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut idle = Waiter::parked(semaphore.wait_idle());
    let granted = Waiter::parked(semaphore.acquire());
    drop(held);
    assert!(idle.is_pending());
    drop(granted);
    idle.output();
    assert_at_rest(&semaphore, 1);
}

#[test]
fn with_close_it_drains() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire_many(2).unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire());
    let mut before = Waiter::parked(semaphore.wait_idle());
    semaphore.close();
    let mut after = Waiter::parked(semaphore.wait_idle());
    assert!(waiter.output().is_err());
    assert!(before.is_pending());
    drop(held);
    before.output();
    after.output();
    assert_at_rest(&semaphore, 2);
}

#[test]
fn somebody_who_waits_for_more_than_is_free_does_not_count_as_holding() {
    let semaphore = Semaphore::new(2);
    semaphore.set_permits(0);
    let _waiter = Waiter::parked(semaphore.acquire());
    assert!(poll_once(&mut semaphore.wait_idle()).is_ready());
    assert_eq!(semaphore.waiting(), 1);
}

#[test]
fn a_debt_must_be_paid_off_by_everybody() {
    let semaphore = Semaphore::new(3);
    let mut held = semaphore.try_acquire_many(3).unwrap();
    let mut idle = Waiter::parked(semaphore.wait_idle());
    semaphore.set_permits(1);
    drop(held.split(2));
    assert!(idle.is_pending());
    semaphore.set_permits(0);
    assert!(idle.is_pending());
    drop(held);
    idle.output();
    assert_at_rest(&semaphore, 0);
}

#[test]
fn resizing_is_not_a_return() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut idle = Waiter::parked(semaphore.wait_idle());
    for limit in [5, 1, 0, 2] {
        semaphore.set_permits(limit);
        assert!(idle.is_pending());
    }
    drop(held);
    idle.output();
}

#[test]
fn forgetting_the_last_permit_makes_it_idle() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire().unwrap();
    let mut idle = Waiter::parked(semaphore.wait_idle());
    held.forget();
    idle.output();
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_wait_for_idleness_that_was_given_up_leaves_no_trace() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire().unwrap();
    drop(Waiter::parked(semaphore.wait_idle()));
    let mut waiter = Waiter::parked(semaphore.acquire_many(2));
    drop(held);
    drop(waiter.granted());
    assert_at_rest(&semaphore, 2);
}

#[test]
fn a_wait_that_is_over_can_be_waited_for_again() {
    let semaphore = Semaphore::new(1);
    let mut idle = Waiter::new(semaphore.wait_idle());
    idle.output();
    let held = semaphore.try_acquire().unwrap();
    assert!(idle.is_pending());
    drop(held);
    idle.output();
    assert_at_rest(&semaphore, 1);
}
