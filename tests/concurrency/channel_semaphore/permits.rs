//! Permits: how many there are, and how they come back.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tollgate::{ChannelSemaphore, ErrorKind};

use super::assert_at_rest;
use crate::support::{Waiter, kind};

#[test]
fn every_verb_takes_one_permit() {
    let semaphore = Arc::new(ChannelSemaphore::new(4));
    let borrowed = semaphore.try_acquire().unwrap();
    assert_eq!((semaphore.available_permits(), semaphore.permits()), (3, 4));
    let waited = Waiter::new(semaphore.acquire()).granted();
    assert_eq!(semaphore.available_permits(), 2);
    let owned = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    assert_eq!(semaphore.available_permits(), 1);
    let owned_waited = Waiter::new(Arc::clone(&semaphore).acquire_owned()).granted();
    assert_eq!((semaphore.available_permits(), semaphore.permits()), (0, 4));
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    let refused = Arc::clone(&semaphore).try_acquire_owned();
    assert_eq!(kind(refused), ErrorKind::NoPermits);
    // It does not matter in which order they come back.
    drop((owned, waited));
    assert_eq!(semaphore.available_permits(), 2);
    drop((owned_waited, borrowed));
    assert_at_rest(&semaphore, 4);
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

#[test]
fn a_permit_knows_its_semaphore() {
    let semaphore = Arc::new(ChannelSemaphore::new(2));
    let borrowed = semaphore.try_acquire().unwrap();
    assert!(std::ptr::eq(borrowed.semaphore(), &*semaphore));
    let owned = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    assert!(std::ptr::eq(owned.semaphore(), &*semaphore));
}

#[test]
fn an_owned_permit_keeps_the_semaphore() {
    let semaphore = Arc::new(ChannelSemaphore::new(1));
    let weak = Arc::downgrade(&semaphore);
    let permit = semaphore.try_acquire_owned().unwrap();
    assert_eq!(weak.upgrade().unwrap().available_permits(), 0);
    drop(permit);
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_leaked_permit_lowers_the_limit_by_one_and_no_more() {
    let semaphore = Arc::new(ChannelSemaphore::new(3));
    mem::forget(semaphore.try_acquire().unwrap());
    mem::forget(Arc::clone(&semaphore).try_acquire_owned().unwrap());
    assert_eq!((semaphore.available_permits(), semaphore.permits()), (1, 3));
    for _ in 0..5 {
        let _permit = semaphore.try_acquire().unwrap();
        assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    }
}

#[test]
fn a_holder_that_panics_gives_its_permit_back() {
    let semaphore = Arc::new(ChannelSemaphore::new(2));
    let mut waiter = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _borrowed = semaphore.try_acquire().unwrap();
        let _owned = Arc::clone(&semaphore).try_acquire_owned().unwrap();
        waiter = Some(Waiter::parked(semaphore.acquire()));
        panic!("a holder that panics on purpose");
    }));
    assert!(panicked.is_err());
    let mut waiter = waiter.unwrap();
    assert!(waiter.wakes() > 0);
    drop(waiter.granted());
    assert_at_rest(&semaphore, 2);
}

/// The mark that a permit takes out of the channel may be another one's.
#[test]
fn permits_come_back_from_many_threads_at_once() {
    for permits in [1, 2, 3] {
        let semaphore = Arc::new(ChannelSemaphore::new(permits));
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for number in 0..5 {
                let (semaphore, inside) = (&semaphore, &inside);
                scope.spawn(move || {
                    for _ in 0..300 {
                        let enters = || {
                            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                            assert!(now <= permits, "too many are inside");
                            thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                        };
                        if number % 2 == 0 {
                            let _permit = semaphore.acquire().wait().unwrap();
                            enters();
                        } else {
                            let owned = Arc::clone(semaphore).acquire_owned();
                            let _permit = owned.wait().unwrap();
                            enters();
                        }
                    }
                });
            }
        });
        assert_at_rest(&semaphore, permits);
    }
}

#[test]
fn everything_has_a_debug_representation() {
    let semaphore = Arc::new(ChannelSemaphore::new(2));
    let permit = semaphore.try_acquire().unwrap();
    let text = format!("{semaphore:?}");
    assert_eq!(
        text,
        "ChannelSemaphore { permits: 2, available_permits: 1, closed: false, .. }"
    );
    assert_eq!(format!("{permit:?}"), format!("Permit({text})"));
    let owned = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    let text = format!("{semaphore:?}");
    assert_eq!(format!("{owned:?}"), format!("Permit({text})"));
    let waiting = Waiter::parked(semaphore.acquire()).into_future();
    let owned_waiting = Waiter::parked(Arc::clone(&semaphore).acquire_owned()).into_future();
    assert_eq!(format!("{waiting:?}"), "Acquire { .. }");
    assert_eq!(format!("{owned_waiting:?}"), "Acquire { .. }");
    semaphore.close();
    assert!(format!("{semaphore:?}").contains("closed: true"));
}
