//! What can be done with a permit: count, split, merge, forget, drop.

use std::sync::Arc;
use std::thread;

use tollgate::{ErrorKind, Semaphore};

use crate::support::{Waiter, assert_at_rest, kind};

#[test]
fn split_takes_permits_out_to_be_dropped_on_their_own() {
    let semaphore = Semaphore::new(5);
    let mut five = semaphore.try_acquire_many(5).unwrap();
    let two = five.split(2).unwrap();
    assert_eq!((five.count(), two.count()), (3, 2));
    assert_eq!(semaphore.available_permits(), 0);
    drop(five);
    assert_eq!(semaphore.available_permits(), 3);
    drop(two);
    assert_at_rest(&semaphore, 5);
}

#[test]
fn split_of_more_than_it_holds_changes_nothing() {
    let semaphore = Semaphore::new(2);
    let mut two = semaphore.try_acquire_many(2).unwrap();
    assert!(two.split(3).is_none());
    assert!(two.split(usize::MAX).is_none());
    assert_eq!(two.count(), 2);
    drop(two);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn split_of_all_and_of_none_are_splits() {
    let semaphore = Semaphore::new(2);
    let mut two = semaphore.try_acquire_many(2).unwrap();
    let none = two.split(0).unwrap();
    let all = two.split(2).unwrap();
    assert_eq!((none.count(), two.count(), all.count()), (0, 0, 2));
    drop((none, two));
    assert_eq!(semaphore.available_permits(), 0);
    drop(all);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn a_part_that_is_dropped_serves_a_waiter() {
    let semaphore = Semaphore::new(3);
    let mut held = semaphore.try_acquire_many(3).unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire_many(2));
    drop(held.split(1));
    assert!(waiter.is_pending());
    drop(held.split(1));
    drop(waiter.granted());
}

#[test]
fn merge_adds_up_and_gives_nothing_back() {
    let semaphore = Semaphore::new(4);
    let mut one = semaphore.try_acquire().unwrap();
    let three = semaphore.try_acquire_many(3).unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire());
    one.merge(three);
    assert_eq!(one.count(), 4);
    assert!(waiter.is_pending());
    assert_eq!(semaphore.available_permits(), 0);
    drop(one);
    drop(waiter.granted());
    assert_at_rest(&semaphore, 4);
}

#[test]
fn split_and_merge_of_owned_permits() {
    let semaphore = Arc::new(Semaphore::new(4));
    let mut permit = Arc::clone(&semaphore).try_acquire_many_owned(4).unwrap();
    let part = permit.split(3).unwrap();
    let handle = thread::spawn(move || part.count());
    assert_eq!(handle.join().unwrap(), 3);
    assert_eq!(semaphore.available_permits(), 3);
    let other = Arc::clone(&semaphore).try_acquire_many_owned(2).unwrap();
    permit.merge(other);
    assert_eq!(permit.count(), 3);
    drop(permit);
    assert_at_rest(&semaphore, 4);
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

#[test]
fn a_merge_may_hold_more_than_any_one_request() {
    let semaphore = Semaphore::new(3 * u32::MAX as usize);
    let mut permit = semaphore.try_acquire_many(u32::MAX).unwrap();
    permit.merge(semaphore.try_acquire_many(u32::MAX).unwrap());
    assert_eq!(permit.count(), 2 * u32::MAX as usize);
    assert_eq!(semaphore.available_permits(), u32::MAX as usize);
    drop(permit.split(u32::MAX as usize + 1));
    assert_eq!(permit.count(), u32::MAX as usize - 1);
}

#[test]
fn forget_lowers_the_limit() {
    let semaphore = Arc::new(Semaphore::new(5));
    semaphore.try_acquire_many(2).unwrap().forget();
    assert_at_rest(&semaphore, 3);
    Arc::clone(&semaphore).try_acquire_owned().unwrap().forget();
    assert_at_rest(&semaphore, 2);
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

#[test]
fn forget_of_none_changes_nothing() {
    let semaphore = Semaphore::new(1);
    semaphore.try_acquire_many(0).unwrap().forget();
    assert_at_rest(&semaphore, 1);
}

#[test]
fn forget_leaves_what_others_hold_alone() {
    let semaphore = Semaphore::new(5);
    let kept = semaphore.try_acquire_many(2).unwrap();
    semaphore.try_acquire_many(2).unwrap().forget();
    assert_eq!((semaphore.permits(), semaphore.available_permits()), (3, 1));
    drop(kept);
    assert_at_rest(&semaphore, 3);
}

#[test]
fn forget_in_debt_lowers_the_limit_and_the_debt_stays() {
    let semaphore = Semaphore::new(4);
    let mut held = semaphore.try_acquire_many(4).unwrap();
    semaphore.set_permits(3);
    held.split(2).unwrap().forget();
    // A limit of one, and two are held.
    assert_eq!((semaphore.permits(), semaphore.available_permits()), (1, 0));
    drop(held.split(1));
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn forget_of_more_than_the_limit_leaves_zero() {
    let semaphore = Semaphore::new(4);
    let mut held = semaphore.try_acquire_many(4).unwrap();
    semaphore.set_permits(1);
    held.split(3).unwrap().forget();
    assert_eq!((semaphore.permits(), semaphore.available_permits()), (0, 0));
    // Nothing is lost track of: what is still held comes back, and there is no debt left.
    drop(held);
    assert_at_rest(&semaphore, 0);
    semaphore.set_permits(2);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn forget_may_make_a_waiter_impossible() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire_many(2).unwrap();
    let mut all = Waiter::parked(semaphore.acquire_many(3));
    let mut one = Waiter::parked(semaphore.acquire());
    held.forget();
    assert_eq!(all.refused(), ErrorKind::ExceedsCapacity);
    drop(one.granted());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn forget_of_the_whole_limit_is_a_pause() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire_many(2).unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire_many(2));
    held.forget();
    assert!(waiter.is_pending());
    semaphore.set_permits(2);
    drop(waiter.granted());
}

#[test]
fn forget_of_the_largest_limit_is_counted_exactly() {
    let semaphore = Semaphore::new(Semaphore::MAX_PERMITS);
    semaphore.try_acquire_many(u32::MAX).unwrap().forget();
    let rest = Semaphore::MAX_PERMITS - u32::MAX as usize;
    assert_eq!(semaphore.permits(), rest);
    assert_eq!(semaphore.available_permits(), rest);
    semaphore.add_permits(u32::MAX as usize);
    assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
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
fn everything_can_be_shown() {
    let semaphore = Arc::new(Semaphore::new(3));
    let permit = semaphore.try_acquire_many(2).unwrap();
    let parked = Waiter::parked(semaphore.acquire_many(2));
    let shown = format!("{semaphore:?} {permit:?}");
    assert!(shown.contains("permits: 3"), "{shown}");
    assert!(shown.contains("available_permits: 1"), "{shown}");
    assert!(shown.contains("waiting: 1"), "{shown}");
    assert!(shown.contains("closed: false"), "{shown}");
    assert!(shown.contains("count: 2"), "{shown}");
    let future = format!("{:?}", parked.into_future());
    assert!(future.contains("permits: 2"), "{future}");
    assert!(!format!("{:?}", semaphore.wait_idle()).is_empty());
}
