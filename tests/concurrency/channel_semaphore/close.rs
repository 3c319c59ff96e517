//! Closing: nobody is let in any more, nobody is left waiting, and permits stay valid.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tollgate::{ChannelSemaphore, ErrorKind};

use crate::support::random::Random;
use crate::support::{Waiter, kind};

#[test]
fn permits_that_are_out_come_back_afterwards() {
    let semaphore = Arc::new(ChannelSemaphore::new(4));
    let borrowed = semaphore.try_acquire().unwrap();
    let owned = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    assert!(!semaphore.is_closed());
    semaphore.close();
    assert!(semaphore.is_closed());
    assert_eq!((semaphore.available_permits(), semaphore.permits()), (2, 4));
    drop(borrowed);
    assert_eq!(semaphore.available_permits(), 3);
    drop(owned);
    assert_eq!((semaphore.available_permits(), semaphore.permits()), (4, 4));
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::Closed);
}

#[test]
fn a_permit_that_comes_back_after_the_close_serves_nobody() {
    let semaphore = ChannelSemaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire());
    semaphore.close();
    drop(held);
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn every_verb_is_refused_although_permits_are_free() {
    let semaphore = Arc::new(ChannelSemaphore::new(8));
    let shared = || Arc::clone(&semaphore);
    let early = (semaphore.acquire(), shared().acquire_owned());
    semaphore.close();
    semaphore.close();
    let refusals = [
        kind(semaphore.try_acquire()),
        kind(shared().try_acquire_owned()),
        Waiter::new(semaphore.acquire()).refused(),
        Waiter::new(shared().acquire_owned()).refused(),
        Waiter::new(early.0).refused(),
        Waiter::new(early.1).refused(),
        kind(semaphore.acquire().wait()),
        kind(shared().acquire_owned().wait()),
    ];
    assert_eq!(refusals, [ErrorKind::Closed; 8]);
    assert_eq!(semaphore.available_permits(), 8);
}

#[test]
fn everyone_who_waits_is_told() {
    let semaphore = Arc::new(ChannelSemaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let mut borrowed: Vec<_> = (0..20)
        .map(|_| Waiter::parked(semaphore.acquire()))
        .collect();
    let mut owned: Vec<_> = (0..20)
        .map(|_| Waiter::parked(Arc::clone(&semaphore).acquire_owned()))
        .collect();
    semaphore.close();
    for waiter in &mut borrowed {
        assert!(waiter.wakes() > 0);
        assert_eq!(waiter.refused(), ErrorKind::Closed);
    }
    for waiter in &mut owned {
        assert!(waiter.wakes() > 0);
        assert_eq!(waiter.refused(), ErrorKind::Closed);
    }
    // Those futures are still there, and do not keep the semaphore.
    assert_eq!(Arc::strong_count(&semaphore), 1);
    drop(held);
    assert_eq!(semaphore.available_permits(), 1);
}

/// Nobody is let in after the close, not even who had been woken for a place before.
#[test]
fn who_was_woken_and_has_not_run_is_refused() {
    let semaphore = Arc::new(ChannelSemaphore::new(2));
    let held = [
        semaphore.try_acquire().unwrap(),
        semaphore.try_acquire().unwrap(),
    ];
    let mut borrowed = Waiter::parked(semaphore.acquire());
    let mut owned = Waiter::parked(Arc::clone(&semaphore).acquire_owned());
    drop(held);
    assert!(borrowed.wakes() > 0 && owned.wakes() > 0);
    semaphore.close();
    assert_eq!(borrowed.refused(), ErrorKind::Closed);
    assert_eq!(owned.refused(), ErrorKind::Closed);
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn a_close_among_threads_strands_nobody_and_loses_no_permit() {
    for round in 0..100 {
        let permits = 1 + round % 3;
        let semaphore = Arc::new(ChannelSemaphore::new(permits));
        let entered = AtomicUsize::new(0);
        thread::scope(|scope| {
            for seed in 0..4 {
                let (semaphore, entered) = (&semaphore, &entered);
                scope.spawn(move || {
                    let mut random = Random::new(100 * round as u64 + seed);
                    loop {
                        let refused = match random.below(3) {
                            0 => semaphore.try_acquire().err(),
                            1 => semaphore.acquire().wait().err(),
                            _ => Arc::clone(semaphore).acquire_owned().wait().err(),
                        };
                        match refused.map(|error| error.kind()) {
                            None => drop(entered.fetch_add(1, Ordering::Relaxed)),
                            Some(ErrorKind::NoPermits) => thread::yield_now(),
                            Some(kind) => return assert_eq!(kind, ErrorKind::Closed),
                        }
                    }
                });
            }
            while entered.load(Ordering::Relaxed) < 5 {
                thread::yield_now();
            }
            semaphore.close();
            assert_eq!(kind(semaphore.try_acquire()), ErrorKind::Closed);
        });
        assert_eq!(semaphore.available_permits(), permits);
        assert_eq!(Arc::strong_count(&semaphore), 1);
    }
}
