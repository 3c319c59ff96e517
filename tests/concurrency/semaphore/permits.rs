//! Permits: owned ones, of one semaphore, as many as there can be, and printed.

use std::sync::Arc;
use std::thread;

use tollgate::Semaphore;

use crate::support::{Waiter, assert_at_rest};

const MAX: usize = Semaphore::MAX_PERMITS;
const MOST: usize = u32::MAX as usize;

#[test]
fn owned_permits_are_split_merged_and_forgotten_on_any_thread() {
    let semaphore = Arc::new(Semaphore::new(5));
    let mut permit = Arc::clone(&semaphore).cost_owned(4).try_acquire().unwrap();
    let part = permit.split(3).unwrap();
    let handle = thread::spawn(move || part.count());
    assert_eq!(handle.join().unwrap(), 3);
    assert_eq!(semaphore.available_permits(), 4);
    permit.merge(Arc::clone(&semaphore).cost_owned(2).try_acquire().unwrap());
    assert_eq!(permit.count(), 3);
    permit.split(1).unwrap().forget();
    drop(permit);
    assert_at_rest(&semaphore, 4);
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

#[test]
fn the_largest_limit_is_counted_exactly() {
    let semaphore = Semaphore::new(0);
    semaphore.add_permits(MAX);
    semaphore.add_permits(0);
    assert_eq!(
        (semaphore.permits(), semaphore.available_permits()),
        (MAX, MAX)
    );
    // Held by one permit of more than any one request.
    let mut permit = semaphore.try_acquire_many(u32::MAX).unwrap();
    let mut waited = Waiter::new(semaphore.acquire_many(u32::MAX));
    permit.merge(waited.granted());
    assert_eq!(permit.count(), 2 * MOST);
    assert_eq!(semaphore.available_permits(), MAX - 2 * MOST);
    drop(permit.split(MOST + 1));
    assert_eq!(
        (permit.count(), semaphore.available_permits()),
        (MOST - 1, MAX - MOST + 1)
    );
    // The limit goes down and up again while it is held.
    semaphore.set_permits(0);
    assert_eq!(semaphore.available_permits(), 0);
    semaphore.set_permits(MAX);
    assert_eq!(semaphore.available_permits(), MAX - MOST + 1);
    permit.forget();
    let rest = MAX - MOST + 1;
    assert_eq!(
        (semaphore.permits(), semaphore.available_permits()),
        (rest, rest)
    );
    semaphore.add_permits(MOST - 1);
    assert_eq!(semaphore.available_permits(), MAX);
    semaphore.set_permits(1);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_permit_knows_its_semaphore() {
    let semaphore = Arc::new(Semaphore::new(2));
    let borrowed = semaphore.try_acquire().unwrap();
    let owned = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    assert!(std::ptr::eq(borrowed.semaphore(), &*semaphore));
    assert!(Arc::ptr_eq(owned.semaphore(), &semaphore));
}

#[test]
fn debug_shows_what_can_be_observed() {
    let semaphore = Arc::new(Semaphore::new(3));
    let permit = semaphore.try_acquire_many(2).unwrap();
    let waiting = Waiter::parked(semaphore.acquire_many(2));
    let shown = format!("{semaphore:?} {permit:?}");
    for part in [
        "permits: 3",
        "available_permits: 1",
        "waiting: 1",
        "closed: false",
        "count: 2",
    ] {
        assert!(shown.contains(part), "{shown} without {part}");
    }
    let future = format!("{:?}", waiting.into_future());
    assert!(future.contains("permits: 2"), "{future}");
    assert!(!format!("{:?}", semaphore.wait_idle()).is_empty());
}
