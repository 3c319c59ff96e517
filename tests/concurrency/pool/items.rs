//! Items: who holds which, and how one gets at it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tollgate::Pool;

use crate::support::Waiter;

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
