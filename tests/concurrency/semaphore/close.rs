//! Closing: nobody is admitted any more, and nobody is left waiting.

use std::sync::Arc;

use tollgate::{ErrorKind, Semaphore};

use crate::support::{Waiter, assert_at_rest, kind};

#[test]
fn every_waiter_gets_closed() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire().unwrap();
    let mut line: Vec<_> = (0..40)
        .map(|_| Waiter::parked(semaphore.acquire_many(2)))
        .collect();
    semaphore.close();
    assert_eq!(semaphore.waiting(), 0);
    for waiter in &mut line {
        assert_eq!(waiter.wakes(), 1);
        assert_eq!(waiter.refused(), ErrorKind::Closed);
    }
    drop(held);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn every_newcomer_gets_closed_although_permits_are_free() {
    let semaphore = Arc::new(Semaphore::new(8));
    assert!(!semaphore.is_closed());
    semaphore.close();
    assert!(semaphore.is_closed());
    let shared = || Arc::clone(&semaphore);
    let refusals = [
        kind(semaphore.try_acquire()),
        kind(semaphore.try_acquire_many(2)),
        kind(shared().try_acquire_owned()),
        kind(shared().try_acquire_many_owned(2)),
        Waiter::new(semaphore.acquire()).refused(),
        Waiter::new(semaphore.acquire_many(2)).refused(),
        Waiter::new(shared().acquire_owned()).refused(),
        Waiter::new(shared().acquire_many_owned(2)).refused(),
    ];
    assert_eq!(refusals, [ErrorKind::Closed; 8]);
    assert_at_rest(&semaphore, 8);
}

#[test]
fn closed_is_the_answer_whatever_else_is_wrong() {
    let semaphore = Semaphore::new(1).max_waiters(0);
    let _held = semaphore.try_acquire().unwrap();
    semaphore.close();
    let too_many = Waiter::new(semaphore.acquire_many(5)).refused();
    let no_room = Waiter::new(semaphore.acquire()).refused();
    assert_eq!([too_many, no_room], [ErrorKind::Closed; 2]);
}

#[test]
fn held_permits_stay_valid_and_come_back() {
    let semaphore = Semaphore::new(3);
    let mut held = semaphore.try_acquire_many(3).unwrap();
    semaphore.close();
    let one = held.split(1).unwrap();
    assert_eq!((held.count(), one.count()), (2, 1));
    drop(held);
    assert_eq!(semaphore.available_permits(), 2);
    drop(one);
    assert_at_rest(&semaphore, 3);
}

#[test]
fn what_was_granted_before_is_still_received() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut granted = Waiter::parked(semaphore.acquire());
    let mut waiting = Waiter::parked(semaphore.acquire());
    drop(held);
    semaphore.close();
    let permit = granted.granted();
    assert_eq!(waiting.refused(), ErrorKind::Closed);
    assert_eq!(semaphore.available_permits(), 0);
    drop(permit);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn what_was_granted_before_and_is_dropped_comes_back() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let granted = Waiter::parked(semaphore.acquire());
    drop(held);
    semaphore.close();
    drop(granted);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_refusal_that_nobody_collects_does_no_harm() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let waiter = Waiter::parked(semaphore.acquire());
    semaphore.close();
    drop(waiter);
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_future_that_was_made_before_gets_closed_at_its_first_poll() {
    let semaphore = Semaphore::new(1);
    let mut early = Waiter::new(semaphore.acquire());
    semaphore.close();
    assert_eq!(early.refused(), ErrorKind::Closed);
}

#[test]
fn closing_again_does_nothing() {
    let semaphore = Semaphore::new(1);
    semaphore.close();
    semaphore.close();
    assert!(semaphore.is_closed());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn closing_during_a_pause_ends_every_wait() {
    let semaphore = Semaphore::new(0);
    let mut waiter = Waiter::parked(semaphore.acquire_many(7));
    semaphore.close();
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    assert_at_rest(&semaphore, 0);
}

#[test]
fn permits_that_come_back_after_the_close_serve_nobody() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire());
    semaphore.close();
    drop(held);
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::Closed);
    assert_eq!(semaphore.available_permits(), 1);
}
