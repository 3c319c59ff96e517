//! Wakers that panic when they are called: contained, as the semaphore does it.

use tollgate::Pool;

use crate::support::Waiter;
use crate::support::foreign::panics_when_woken;

#[test]
fn permit_dropped_with_panicking_waker_passes_its_item_on() {
    let pool = Pool::new(["an item"]);
    let held = pool.try_acquire().unwrap();
    let mut panics = Waiter::new(pool.acquire());
    assert!(panics.poll_with(&panics_when_woken()).is_pending());
    let mut behind = Waiter::parked(pool.acquire());
    drop(held);
    drop(panics);
    assert_eq!(*behind.granted(), "an item");
}
