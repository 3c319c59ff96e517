//! Holders that panic: what becomes of their items.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::Pool;

use super::tracked::made_to_order;
use crate::support::Waiter;

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
