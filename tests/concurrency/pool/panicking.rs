//! Holders that panic: what becomes of their items.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tollgate::Pool;

use super::tracked::{Item, made_to_order, ready_made};
use crate::support::Waiter;

/// Uses an item, spoils it and panics.
fn spoil(mut item: impl std::ops::DerefMut<Target = Item>) {
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        item.uses += 1;
        item.spoilt = true;
        let _item = item;
        panic!("a holder that panics on purpose");
    }));
    assert!(panicked.is_err());
}

#[test]
fn an_item_that_cannot_be_made_again_comes_back_as_it_is() {
    let (pool, tally) = ready_made(1);
    spoil(pool.try_acquire().unwrap());
    let permit = pool.try_acquire().unwrap();
    assert_eq!((permit.number, permit.uses, permit.spoilt), (0, 1, true));
    drop(permit);
    spoil(Arc::clone(&pool).try_acquire_owned().unwrap());
    assert_eq!(pool.try_acquire().unwrap().uses, 2);
    assert_eq!((tally.made(), tally.dropped()), (1, 0));
}

#[test]
fn an_item_that_can_be_made_again_is_replaced_and_the_others_are_left_alone() {
    let (pool, tally) = made_to_order(2);
    let other = pool.try_acquire().unwrap();
    let spoilt = pool.try_acquire().unwrap();
    let mut waiter = Waiter::parked(pool.acquire());
    thread::scope(|scope| scope.spawn(|| spoil(spoilt)).join()).unwrap();
    // It is gone at once, and the new one is made by who needs it.
    assert_eq!((tally.made(), tally.dropped()), (2, 1));
    assert!(waiter.wakes() > 0);
    let permit = waiter.granted();
    assert_eq!((permit.number, permit.uses, permit.spoilt), (2, 0, false));
    drop(permit);
    spoil(Arc::clone(&pool).try_acquire_owned().unwrap());
    assert_eq!(
        (tally.made(), tally.dropped(), pool.snapshot().available),
        (3, 2, 1)
    );
    drop(other);
    let permits = [pool.try_acquire().unwrap(), pool.try_acquire().unwrap()];
    assert_eq!((permits[0].number, permits[1].number), (0, 3));
}

#[test]
fn a_permit_that_outlives_a_panic_keeps_its_item() {
    let (pool, tally) = made_to_order(1);
    let mut permit = pool.try_acquire().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        permit.uses += 1;
        panic!("while the item is only borrowed");
    }));
    assert!(panicked.is_err());
    drop(permit);
    assert_eq!(pool.try_acquire().unwrap().uses, 1);
    assert_eq!(tally.dropped(), 0);
}

#[test]
fn after_close_the_item_of_a_holder_that_panics_is_dropped_once() {
    for (pool, tally) in [made_to_order(1), ready_made(1)] {
        let held = pool.try_acquire().unwrap();
        pool.close();
        spoil(held);
        assert_eq!((tally.made(), tally.dropped()), (1, 1));
        assert_eq!((pool.snapshot().in_use, pool.is_closed()), (0, true));
    }
}

/// An item whose destructor panics while the flag is set.
struct Fragile(Arc<AtomicBool>);

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(!self.0.load(Ordering::SeqCst), "a destructor that panics");
    }
}

#[test]
fn acquire_dropped_after_grant_and_shrink_contains_the_panic_of_the_item() {
    let panics = Arc::new(AtomicBool::new(false));
    let pool = Pool::new([(); 2].map(|()| Fragile(Arc::clone(&panics))));
    let (first, second) = (pool.try_acquire().unwrap(), pool.try_acquire().unwrap());
    let granted = Waiter::parked(pool.acquire());
    drop(first);
    pool.set_size(1);
    panics.store(true, Ordering::SeqCst);
    // It had been granted the item that is now one too many.
    drop(granted);
    panics.store(false, Ordering::SeqCst);
    assert_eq!((pool.snapshot().limit, pool.snapshot().available), (1, 0));
    drop(second);
    assert_eq!(pool.snapshot().available, 1);
}
