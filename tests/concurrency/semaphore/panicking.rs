//! Wakers that panic: everybody else is still granted and woken, and nothing is poisoned.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate::{ErrorKind, Semaphore};

use crate::support::foreign::{panics_when_woken, throws_a_bomb_when_woken};
use crate::support::{Waiter, assert_at_rest, kind};

/// More than one batch of wakers, whatever the size of a batch is.
const CROWD: usize = 100;

#[test]
fn everybody_else_is_granted_and_woken() {
    let semaphore = Semaphore::new(0);
    let mut line: Vec<_> = (0..CROWD)
        .map(|name| {
            let mut waiter = Waiter::new(semaphore.acquire());
            match name % 3 {
                0 => assert!(waiter.poll_with(&panics_when_woken()).is_pending()),
                _ => assert!(waiter.is_pending()),
            }
            waiter
        })
        .collect();
    semaphore.add_permits(CROWD);
    assert_eq!(semaphore.waiting(), 0);
    for (name, waiter) in line.iter_mut().enumerate() {
        assert_eq!(waiter.wakes(), usize::from(name % 3 != 0));
    }
    let permits: Vec<_> = line.iter_mut().map(Waiter::granted).collect();
    assert_eq!(semaphore.available_permits(), 0);
    drop(permits);
    assert_at_rest(&semaphore, CROWD);
}

#[test]
fn everybody_is_granted_when_every_waker_panics() {
    let semaphore = Semaphore::new(0);
    let mut line: Vec<_> = (0..CROWD)
        .map(|_| {
            let mut waiter = Waiter::new(semaphore.acquire());
            assert!(waiter.poll_with(&panics_when_woken()).is_pending());
            waiter
        })
        .collect();
    semaphore.set_permits(CROWD);
    let permits: Vec<_> = line.iter_mut().map(Waiter::granted).collect();
    drop(permits);
    assert_at_rest(&semaphore, CROWD);
}

#[test]
fn the_panic_goes_no_further() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire_many(2).unwrap();
    let mut waiter = Waiter::new(semaphore.acquire_many(2));
    assert!(waiter.poll_with(&panics_when_woken()).is_pending());
    // Not out of a release, a passing on, an idle wait, or the close.
    drop(held);
    let mut next = Waiter::new(semaphore.acquire());
    assert!(next.poll_with(&panics_when_woken()).is_pending());
    drop(waiter);
    let mut idle = Waiter::new(semaphore.wait_idle());
    assert!(idle.poll_with(&panics_when_woken()).is_pending());
    drop(next.granted());
    idle.output();
    let held = semaphore.try_acquire_many(2).unwrap();
    let mut last = Waiter::new(semaphore.acquire());
    assert!(last.poll_with(&panics_when_woken()).is_pending());
    semaphore.close();
    assert_eq!(last.refused(), ErrorKind::Closed);
    drop(held);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn nothing_is_poisoned() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut waiter = Waiter::new(semaphore.acquire());
    assert!(waiter.poll_with(&panics_when_woken()).is_pending());
    drop(held);
    drop(waiter.granted());
    // All that takes the lock still does.
    let held = semaphore.try_acquire().unwrap();
    let mut next = Waiter::parked(semaphore.acquire());
    let mut idle = Waiter::parked(semaphore.wait_idle());
    assert_eq!(semaphore.waiting(), 1);
    semaphore.add_permits(1);
    drop(next.granted());
    drop(held);
    idle.output();
    semaphore.close();
    assert_at_rest(&semaphore, 2);
}

/// The payload of a panic is foreign code too: it may panic when it is dropped.
#[test]
fn a_panic_with_a_payload_that_panics_keeps_nobody_from_being_woken() {
    let semaphore = Semaphore::new(0);
    let mut first = Waiter::new(semaphore.acquire());
    assert!(first.poll_with(&throws_a_bomb_when_woken()).is_pending());
    let mut line: Vec<_> = (1..CROWD)
        .map(|_| Waiter::parked(semaphore.acquire()))
        .collect();
    // Whether the second panic goes further is left open.
    let _ =
        catch_unwind(AssertUnwindSafe(|| semaphore.add_permits(CROWD))).map_err(std::mem::forget);
    let woken = line.iter().filter(|waiter| waiter.wakes() == 1).count();
    assert_eq!(woken, line.len());
    drop(first.granted());
    for waiter in &mut line {
        drop(waiter.granted());
    }
    assert_at_rest(&semaphore, CROWD);
}

#[test]
fn a_holder_that_panics_gives_its_permit_back() {
    let semaphore = Semaphore::new(1);
    let mut waiter = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _permit = semaphore.try_acquire().unwrap();
        waiter = Some(Waiter::parked(semaphore.acquire()));
        panic!("a holder that panics on purpose");
    }));
    assert!(panicked.is_err());
    let mut waiter = waiter.unwrap();
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    assert_eq!(waiter.wakes(), 1);
    drop(waiter.granted());
    assert_at_rest(&semaphore, 1);
}

/// A panic inside a panic would abort the process if it got out of the permit's drop.
#[test]
fn a_holder_that_panics_may_wake_a_waker_that_panics() {
    let semaphore = Semaphore::new(1);
    let mut waiter = Waiter::new(semaphore.acquire());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _permit = semaphore.try_acquire().unwrap();
        assert!(waiter.poll_with(&panics_when_woken()).is_pending());
        panic!("a holder that panics on purpose");
    }));
    assert!(panicked.is_err());
    drop(waiter.granted());
    assert_at_rest(&semaphore, 1);
}
