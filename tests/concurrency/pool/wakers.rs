//! Wakers that panic when they are called.
//!
//! A wait whose own waker panicked is leaked here: what is counted in the channel is off by one then,
//! which an overflow check finds, so with such checks it panics in its drop as well.

use std::mem;
use std::sync::Arc;

use tollgate::{ErrorKind, Pool};

use crate::support::foreign::{panic_message, panics_when_woken};
use crate::support::{Waiter, kind};

/// Waits, and panics when it is woken.
fn park_one_that_panics(pool: &Pool<()>) {
    let mut waiter = Waiter::new(pool.acquire());
    assert!(waiter.poll_with(&panics_when_woken()).is_pending());
    mem::forget(waiter.into_future());
}

#[test]
fn a_permit_can_be_dropped_all_the_same() {
    let pool = Arc::new(Pool::new([()]));
    for owned in [false, true] {
        if owned {
            let held = Arc::clone(&pool).try_acquire_owned().unwrap();
            park_one_that_panics(&pool);
            drop(held);
        } else {
            let held = pool.try_acquire().unwrap();
            park_one_that_panics(&pool);
            drop(held);
        }
        assert_eq!(pool.idle(), 1);
        // And whoever comes later is served as ever.
        let held = pool.try_acquire().unwrap();
        let mut later = Waiter::parked(pool.acquire());
        drop(held);
        assert!(later.wakes() > 0);
        drop(later.granted());
    }
}

/// A panic inside a panic would end the process if it got out of the permit's drop.
#[test]
fn a_holder_that_panics_may_wake_one() {
    let pool = Pool::new([()]);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _permit = pool.try_acquire().unwrap();
        park_one_that_panics(&pool);
        panic!("a holder that panics on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(pool.idle(), 1);
}

/// Those behind it are refused when they are polled, but nothing makes them be polled.
#[test]
fn a_close_wakes_those_in_front_of_it() {
    let pool = Pool::new([()]);
    let held = pool.try_acquire().unwrap();
    let mut in_front = Waiter::parked(pool.acquire());
    park_one_that_panics(&pool);
    let mut behind = Waiter::parked(pool.acquire());
    pool.close();
    assert!(in_front.wakes() > 0 && behind.wakes() == 0);
    assert_eq!(in_front.refused(), ErrorKind::Closed);
    assert_eq!(behind.refused(), ErrorKind::Closed);
    assert_eq!(kind(pool.try_acquire()), ErrorKind::Closed);
    drop(held);
}

/// The end of a wait tells the next one. The panic comes out of the poll of one that was let in, or of
/// the drop of one that gives up; nothing is lost either way.
#[test]
fn a_wait_that_ends_may_wake_one() {
    for gives_up in [false, true] {
        let pool = Arc::new(Pool::new([()]));
        let held = pool.try_acquire().unwrap();
        let mut woken = Waiter::parked(pool.acquire());
        park_one_that_panics(&pool);
        drop(held);
        if gives_up {
            assert!(panic_message(|| drop(woken)).is_some());
        } else {
            assert!(panic_message(|| drop(woken.granted())).is_some());
        }
        assert_eq!(pool.idle(), 1);

        let held = pool.try_acquire().unwrap();
        let mut woken = Waiter::parked(Arc::clone(&pool).acquire_owned());
        park_one_that_panics(&pool);
        drop(held);
        if gives_up {
            assert!(panic_message(|| drop(woken)).is_some());
        } else {
            assert!(panic_message(|| drop(woken.granted())).is_some());
        }
        assert_eq!(pool.idle(), 1);
    }
}
