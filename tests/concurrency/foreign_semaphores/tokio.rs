//! tokio's semaphore.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::sync::Semaphore;
use tollgate::{ErrorKind, Throttle, TryThrottle};

use crate::support::foreign::{panic_message, panics_when_woken};
use crate::support::{Waiter, kind};

of_both!(Semaphore, "EnterForeign { .. }", "EnterForeign { .. }");

#[test]
fn one_of_its_own_that_asks_for_many_is_not_overtaken() {
    let semaphore = Arc::new(Semaphore::new(3));
    let mut held = semaphore.try_acquire_many(3).unwrap();
    let mut many = Waiter::parked(semaphore.acquire_many(3));
    let mut behind = Waiter::parked((&*semaphore).enter());
    let mut owned_behind = Waiter::parked(semaphore.enter());
    for _ in 0..2 {
        drop(held.split(1));
        // What has come back is kept for the one in front.
        assert_eq!(kind((&*semaphore).try_enter()), ErrorKind::NoPermits);
        assert_eq!(kind(semaphore.try_enter()), ErrorKind::NoPermits);
        let mut newcomer = Waiter::parked((&*semaphore).enter());
        assert!(newcomer.is_pending() && behind.is_pending() && owned_behind.is_pending());
        assert!(many.is_pending());
    }
    drop(held);
    let three = many.output().unwrap();
    assert!(behind.is_pending());
    drop(three);
    drop((behind.granted(), owned_behind.granted()));
    assert_eq!(semaphore.available_permits(), 3);
}

#[test]
fn a_waker_that_panics_goes_on_unwinding_and_loses_nothing() {
    let semaphore = Semaphore::new(1);
    let held = (&semaphore).try_enter().unwrap();
    let mut panics = Waiter::new((&semaphore).enter());
    assert!(panics.poll_with(&panics_when_woken()).is_pending());
    let mut next = Waiter::parked((&semaphore).enter());
    let message = panic_message(|| drop(held));
    assert_eq!(message.as_deref(), Some("a waker that panics on purpose"));
    drop(panics.granted());
    drop(next.granted());
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn ours_and_its_own_on_threads_never_exceed_the_limit() {
    const LIMIT: usize = 2;
    let semaphore = Arc::new(Semaphore::new(LIMIT));
    let inside = AtomicUsize::new(0);
    let stay = || {
        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(now <= LIMIT, "too many are inside");
        thread::yield_now();
        inside.fetch_sub(1, Ordering::SeqCst);
    };
    thread::scope(|scope| {
        for number in 0..4 {
            let (semaphore, stay) = (&semaphore, &stay);
            scope.spawn(move || {
                for _ in 0..300 {
                    match number {
                        0 => {
                            let _permit = (&**semaphore).enter().wait().unwrap();
                            stay();
                        }
                        1 => {
                            let _permit = semaphore.enter().wait().unwrap();
                            stay();
                        }
                        2 => {
                            let acquire = semaphore.acquire();
                            let _permit = futures::executor::block_on(acquire).unwrap();
                            stay();
                        }
                        // Is granted now and then while it leaves.
                        _ => drop(Waiter::new(semaphore.enter()).poll()),
                    }
                }
            });
        }
    });
    assert_eq!(semaphore.available_permits(), LIMIT);
}

/// A thread that blocks drives no runtime, so it must not wait for a budget that only the runtime
/// renews.
#[::tokio::test]
async fn a_task_without_budget_can_block_for_a_permit() {
    let semaphore = Semaphore::new(1);
    let held = (&semaphore).try_enter().unwrap();
    let mut enter = Box::pin((&semaphore).enter());
    assert!(futures::poll!(&mut enter).is_pending());
    drop(held);
    let other = Semaphore::new(1);
    while futures::poll!(Box::pin(other.acquire())).is_ready() {}
    assert!(futures::executor::block_on(enter).is_ok());
}
