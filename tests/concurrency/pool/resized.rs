//! The size changes, and items are discarded, while items are out and callers wait.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use tollgate::{AcquireError, ErrorKind, Pool};

use crate::support::foreign::panic_message;
use crate::support::random::on_threads;
use crate::support::{Waiter, ends, kind};

#[test]
fn check_on_return_discards_what_fails_or_panics() {
    for panics in [false, true] {
        let pool = Pool::new([1, 2]).check_on_return(move |item| {
            assert!(!panics || *item < 10, "on purpose");
            *item < 10
        });
        let mut spoilt = pool.try_acquire().unwrap();
        drop(pool.try_acquire().unwrap());
        *spoilt = 10;
        drop(spoilt);
        assert_eq!((pool.snapshot().limit, pool.snapshot().available), (1, 1));
        assert_eq!(*pool.try_acquire().unwrap(), 2);
    }
}

#[test]
fn async_factory_makes_items_when_first_needed() {
    let (open, calls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (gate, called) = (Arc::clone(&open), Arc::clone(&calls));
    let pool = Pool::with_async_factory(2, move || {
        called.fetch_add(1, Ordering::SeqCst);
        let gate = Arc::clone(&gate);
        poll_fn(move |_| match gate.load(Ordering::SeqCst) {
            true => Poll::Ready(Ok::<_, AcquireError>("made")),
            false => Poll::Pending,
        })
    });
    // A try never calls it.
    assert_eq!(kind(pool.try_acquire()), ErrorKind::NoPermits);
    assert_eq!(
        (pool.snapshot().available, calls.load(Ordering::SeqCst)),
        (2, 0)
    );
    let mut first = Waiter::parked(pool.acquire());
    let dropped = Waiter::parked(pool.acquire());
    let mut third = Waiter::parked(pool.acquire());
    // It has its permit and nothing else.
    drop(dropped);
    assert!(third.wakes() > 0 && third.is_pending());
    open.store(true, Ordering::SeqCst);
    assert_eq!((*first.granted(), *third.granted()), ("made", "made"));
    assert!(pool.try_acquire().is_ok());
}

#[test]
fn async_factory_that_fails_leaves_the_item_to_the_next_waiter() {
    let fails = Arc::new(AtomicBool::new(true));
    let failing = Arc::clone(&fails);
    let pool = Pool::with_async_factory(1, move || {
        let failed = failing.swap(false, Ordering::SeqCst);
        async move {
            match failed {
                true => Err(AcquireError::new(ErrorKind::Store)),
                false => Ok(7),
            }
        }
    });
    let mut first = Waiter::new(pool.acquire());
    assert_eq!(first.refused(), ErrorKind::Store);
    let again = panic_message(|| first.poll().is_ready());
    assert_eq!(again.as_deref(), Some("polled again after it was ready"));
    assert_eq!(
        (
            *Waiter::new(pool.acquire()).granted(),
            pool.snapshot().limit
        ),
        (7, 1)
    );
}

/// The time of one wait is nothing to another that the factory makes.
#[test]
fn factory_that_waits_is_not_refused_by_the_timeout_of_the_caller() {
    use std::time::Duration;
    use tollgate::{Clock, Quota, RateLimiter};
    let clock = Clock::manual();
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(1)).clock(&clock));
    limiter.try_acquire().unwrap();
    let shared = Arc::clone(&limiter);
    let pool = Pool::with_async_factory(1, move || {
        let waits = Arc::clone(&shared).acquire_owned();
        async move { waits.await.map(|_| ()) }
    });
    // A limiter that knew of the millisecond would refuse at once.
    let acquire = pool.acquire().timeout(Duration::from_millis(1));
    let mut waiter = Waiter::parked(acquire);
    assert_eq!(limiter.snapshot().waiting, 1);
    clock.advance(Duration::from_secs(1));
    drop(waiter.granted());
}

#[test]
fn sizes_that_change_among_threads_leave_a_whole_pool() {
    let item = Arc::new(());
    let pool = Pool::new([(); 4].map(|()| Arc::clone(&item)));
    on_threads(4, |random| {
        for _ in 0..2000 {
            match random.below(8) {
                0 if random.below(4) == 0 => pool.set_size(0),
                0..2 => pool.add(Arc::clone(&item)),
                2 => drop(pool.try_acquire().map(|permit| permit.discard())),
                _ => drop(pool.try_acquire()),
            }
        }
    });
    // One that came back in the midst of a shrink may be too many, until the next one comes back.
    pool.add(Arc::clone(&item));
    (0..20_000).for_each(|_| drop(pool.try_acquire()));
    // There is an item for each permit, and none too many.
    let size = pool.snapshot().limit as usize;
    let permits: Vec<_> = std::iter::from_fn(|| pool.try_acquire().ok()).collect();
    assert_eq!((permits.len(), Arc::strong_count(&item) - 1), (size, size));
}

/// An item that came back looked for its waiter from the first one, under the lock: 200,000 of them
/// would have taken 20,000 million steps.
#[test]
fn items_that_come_back_to_many_granted_waiters_find_theirs_at_once() {
    const COUNT: usize = 200_000;
    let made = ends(|| {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let make = move || counted.fetch_add(1, Ordering::Relaxed);
        let pool = Pool::with_factory(COUNT, make);
        let held: Vec<_> = (0..COUNT).map(|_| pool.try_acquire().unwrap()).collect();
        let waiters: Vec<_> = (0..COUNT).map(|_| Waiter::parked(pool.acquire())).collect();
        pool.set_size(2 * COUNT);
        assert_eq!(pool.snapshot().waiting, 0);
        drop(held);
        // In the order in which they came back.
        for (item, mut waiter) in waiters.into_iter().enumerate() {
            assert_eq!(*waiter.granted(), item);
        }
        made.load(Ordering::Relaxed)
    });
    assert_eq!(made, COUNT);
}
