//! Items: who holds which, and how one gets at it.

use std::cell::Cell;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;

use tollgate::{ErrorKind, Pool};

use super::tracked::ready_made;
use crate::support::{Waiter, kind};

#[test]
fn a_permit_is_its_item() {
    let pool = Pool::new([String::from("one")]);
    let mut permit = pool.try_acquire().unwrap();
    assert_eq!(*permit, "one");
    assert_eq!(permit.len(), 3);
    permit.push_str(" more");
    drop(permit);
    // The next holder sees what the last one did.
    let pool = Arc::new(pool);
    let mut owned = Arc::clone(&pool).try_acquire_owned().unwrap();
    assert_eq!(*owned, "one more");
    owned.push_str(" and more");
    assert!(std::ptr::eq(owned.pool(), &*pool));
    drop(owned);
    let permit = pool.try_acquire().unwrap();
    assert!(std::ptr::eq(permit.pool(), &*pool));
    assert_eq!(*permit, "one more and more");
}

#[test]
fn every_verb_takes_one_item() {
    let pool = Arc::new(Pool::new(0..4));
    let borrowed = pool.try_acquire().unwrap();
    let waited = Waiter::new(pool.acquire()).granted();
    let owned = Arc::clone(&pool).try_acquire_owned().unwrap();
    let owned_waited = Waiter::new(Arc::clone(&pool).acquire_owned()).granted();
    assert_eq!([*borrowed, *waited, *owned, *owned_waited], [0, 1, 2, 3]);
    assert_eq!((pool.snapshot().available, pool.snapshot().limit), (0, 4));
    assert_eq!(kind(pool.try_acquire()), ErrorKind::NoPermits);
    let refused = Arc::clone(&pool).try_acquire_owned();
    assert_eq!(kind(refused), ErrorKind::NoPermits);
    drop((borrowed, waited));
    assert_eq!(pool.snapshot().available, 2);
    drop((owned, owned_waited));
    assert_eq!((pool.snapshot().available, pool.snapshot().limit), (4, 4));
}

#[test]
fn the_item_that_has_been_idle_for_longest_is_next() {
    let pool = Pool::new([1, 2, 3]);
    let (one, two, three) = (
        pool.try_acquire().unwrap(),
        pool.try_acquire().unwrap(),
        pool.try_acquire().unwrap(),
    );
    assert_eq!((*one, *two, *three), (1, 2, 3));
    for permit in [three, one, two] {
        drop(permit);
    }
    let permits: Vec<_> = (0..3).map(|_| pool.try_acquire().unwrap()).collect();
    let order: Vec<_> = permits.iter().map(|permit| **permit).collect();
    assert_eq!(order, [3, 1, 2]);
}

#[test]
fn a_waiter_gets_the_item_that_came_back() {
    let pool = Arc::new(Pool::new([1, 2]));
    let (one, two) = (pool.try_acquire().unwrap(), pool.try_acquire().unwrap());
    let mut borrowed = Waiter::parked(pool.acquire());
    let mut owned = Waiter::parked(Arc::clone(&pool).acquire_owned());
    drop(two);
    drop(one);
    assert_eq!((*borrowed.granted(), *owned.granted()), (2, 1));
}

#[test]
fn a_leaked_permit_takes_one_item_away_and_no_more() {
    let (pool, tally) = ready_made(3);
    mem::forget(pool.try_acquire().unwrap());
    mem::forget(Arc::clone(&pool).try_acquire_owned().unwrap());
    assert_eq!((pool.snapshot().available, pool.snapshot().limit), (1, 3));
    for _ in 0..5 {
        let permit = pool.try_acquire().unwrap();
        assert_eq!(permit.number, 2);
        assert_eq!(kind(pool.try_acquire()), ErrorKind::NoPermits);
    }
    pool.close();
    assert_eq!(tally.dropped(), 1);
}

#[test]
fn a_pool_that_is_dropped_drops_its_items() {
    let (pool, tally) = ready_made(3);
    drop(pool.try_acquire().unwrap());
    assert_eq!(tally.dropped(), 0);
    drop(pool);
    assert_eq!((tally.made(), tally.dropped()), (3, 3));
}

/// Neither `Clone`, `Default` and `Debug`, nor `Send` and `Sync`.
struct Unwieldy(Rc<Cell<usize>>);

#[test]
#[allow(clippy::arc_with_non_send_sync, reason = "that is what is tried")]
fn items_need_no_traits() {
    let count = Rc::new(Cell::new(0));
    let pool = Arc::new(Pool::new([Unwieldy(Rc::clone(&count))]));
    let held = pool.try_acquire().ok().unwrap();
    let mut waiter = Waiter::parked(pool.acquire());
    held.0.set(held.0.get() + 1);
    drop(held);
    let Ok(permit) = waiter.output() else {
        panic!("refused");
    };
    permit.0.set(permit.0.get() + 1);
    drop((permit, waiter));
    // Without `Send` one can still have an owned permit, though not wait for it.
    let owned = Arc::clone(&pool).try_acquire_owned().ok().unwrap();
    owned.0.set(owned.0.get() + 1);
    drop((owned, pool));
    assert_eq!((count.get(), Rc::strong_count(&count)), (3, 1));
}

#[test]
fn items_may_borrow() {
    let words = [String::from("one"), String::from("another")];
    let pool = Pool::new(words.iter().map(String::as_str));
    assert_eq!(*pool.try_acquire().unwrap(), "one");
    let made = Pool::with_factory(1, || "a literal");
    assert_eq!(*made.try_acquire().unwrap(), "a literal");
}

#[test]
fn debug_shows_what_can_be_observed() {
    let pool = Pool::new([7, 8]);
    let permit = pool.try_acquire().unwrap();
    let text = format!("{pool:?}");
    assert_eq!(text, "Pool { size: 2, available: 1, closed: false, .. }");
    let expected = format!("Permit {{ item: 7, pool: {text} }}");
    assert_eq!(format!("{permit:?}"), expected);
    assert_eq!(
        format!("{:?}", pool.acquire()),
        "Acquire { permits: 1, queued: false, .. }"
    );
    pool.close();
    let closed = "Pool { size: 2, available: 1, closed: true, .. }";
    assert_eq!(format!("{pool:?}"), closed);
}
