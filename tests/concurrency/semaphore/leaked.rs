//! Futures and permits that are leaked: they take away what they asked for, and no more.

use std::mem;
use std::sync::Arc;

use tollgate::{ErrorKind, Semaphore};

use crate::support::{Waiter, assert_at_rest};

#[test]
fn a_forgotten_waiter_takes_away_what_it_asked_for_and_no_more() {
    let semaphore = Semaphore::new(5);
    let held = semaphore.try_acquire_many(5).unwrap();
    mem::forget(Waiter::parked(semaphore.acquire_many(2)).into_future());
    let mut behind = Waiter::parked(semaphore.acquire_many(3));
    drop(held);
    drop(behind.granted());
    assert_eq!(semaphore.available_permits(), 3);
    assert_eq!(semaphore.waiting(), 0);
    drop(semaphore.try_acquire_many(3).unwrap());
}

#[test]
fn a_forgotten_waiter_that_had_been_granted_takes_away_no_more_either() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire_many(3).unwrap();
    let waiter = Waiter::parked(semaphore.acquire_many(2));
    drop(held);
    mem::forget(waiter.into_future());
    assert_eq!(semaphore.available_permits(), 1);
    drop(semaphore.try_acquire().unwrap());
    // Who runs the semaphore can make up for it.
    semaphore.add_permits(2);
    drop(semaphore.try_acquire_many(3).unwrap());
}

#[test]
fn a_forgotten_waiter_that_is_refused_takes_nothing_away() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire_many(3).unwrap();
    mem::forget(Waiter::parked(semaphore.acquire_many(3)).into_future());
    let mut behind = Waiter::parked(semaphore.acquire());
    semaphore.set_permits(2);
    drop(held);
    drop(behind.granted());
    assert_at_rest(&semaphore, 2);
}

#[test]
fn a_forgotten_waiter_does_not_keep_a_drain_from_ending() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    mem::forget(Waiter::parked(semaphore.acquire()).into_future());
    semaphore.close();
    let mut idle = Waiter::parked(semaphore.wait_idle());
    drop(held);
    idle.output();
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_forgotten_future_that_was_never_polled_takes_nothing_away() {
    let semaphore = Semaphore::new(1);
    mem::forget(semaphore.acquire());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_forgotten_wait_for_idleness_takes_nothing_away() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire_many(2).unwrap();
    mem::forget(Waiter::parked(semaphore.wait_idle()).into_future());
    let mut waiter = Waiter::parked(semaphore.acquire());
    let mut idle = Waiter::parked(semaphore.wait_idle());
    drop(held);
    drop(waiter.granted());
    idle.output();
    assert_at_rest(&semaphore, 2);
}

#[test]
fn a_leaked_permit_is_out_of_circulation_and_the_limit_stays() {
    let semaphore = Arc::new(Semaphore::new(3));
    mem::forget(semaphore.try_acquire().unwrap());
    mem::forget(Arc::clone(&semaphore).try_acquire_owned().unwrap());
    assert_eq!(semaphore.permits(), 3);
    assert_eq!(semaphore.available_permits(), 1);
    assert_eq!(
        semaphore.try_acquire_many(2).unwrap_err().kind(),
        ErrorKind::NoPermits
    );
}
