//! What should be handed on to somebody else, and is lost on the way.

use std::sync::Barrier;
use std::thread;

use tollgate::{CondvarSemaphore, Semaphore};

use crate::support::{Waiter, assert_at_rest};

/// Granted, then dropped: the permit is lost instead of passed on.
///
/// Seen in python/asyncio#270, awslabs/shuttle#167. Of every throttle,
/// `granted_then_dropped_is_passed_on`.
#[test]
fn granted_then_dropped() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let granted = Waiter::parked(semaphore.acquire());
    let granted_next = Waiter::parked(semaphore.acquire());
    let mut last = Waiter::parked(semaphore.acquire());
    drop(held);
    // Each has been granted, and has not run since, when it is dropped.
    assert_eq!(granted.wakes(), 1);
    drop(granted);
    assert_eq!(granted_next.wakes(), 1);
    drop(granted_next);
    drop(last.granted());
    // And with nobody to pass it on to.
    let held = semaphore.try_acquire().unwrap();
    let granted = Waiter::parked(semaphore.acquire());
    drop(held);
    drop(granted);
    assert_at_rest(&semaphore, 1);
}

/// A large head is cancelled and the small ones behind it are not woken.
///
/// Seen in embassy-rs/embassy#6964.
#[test]
fn large_head_cancelled() {
    let semaphore = Semaphore::new(10);
    let mut held = semaphore.try_acquire_many(10).unwrap();
    let large = Waiter::parked(semaphore.acquire_many(8));
    let small: Vec<_> = (0..3)
        .map(|_| Waiter::parked(semaphore.acquire_many(2)))
        .collect();
    // Enough for all the small ones, and not for the large one.
    drop(held.split(7));
    assert!(small.iter().all(|waiter| waiter.wakes() == 0));
    drop(large);
    // No further release is needed.
    assert!(small.iter().all(|waiter| waiter.wakes() == 1));
    assert_eq!(semaphore.available_permits(), 1);
    drop((small, held));
    assert_at_rest(&semaphore, 10);
}

/// Two releases coalesce into one notification.
///
/// Seen in smol-rs/async-lock#18, rustfs/rustfs#4498. Of every throttle, `several_returns_let_as_many_in`.
#[test]
fn two_releases_coalesce() {
    let semaphore = Semaphore::new(2);
    let (one, two) = (
        semaphore.try_acquire().unwrap(),
        semaphore.try_acquire().unwrap(),
    );
    let mut first = Waiter::parked(semaphore.acquire());
    let mut second = Waiter::parked(semaphore.acquire());
    drop(one);
    drop(two);
    // Before anybody has run: two releases, two who know of it.
    assert_eq!((first.wakes(), second.wakes()), (1, 1));
    let permit = second.granted();
    drop((first.granted(), permit));

    // The completed future of the first is kept, which must not keep the next one from being woken.
    let held = semaphore.try_acquire_many(2).unwrap();
    let mut third = Waiter::parked(semaphore.acquire_many(2));
    let mut fourth = Waiter::parked(semaphore.acquire_many(2));
    drop(held);
    drop(third.granted());
    assert_eq!(fourth.wakes(), 1);
    drop(fourth.granted());
    drop((first, second, third, fourth));
    assert_at_rest(&semaphore, 2);

    // One notification for those who want a permit and those who want all of them to be back: as
    // in the second, where the waiter that is woken first has no use for it and tells nobody.
    for taker_comes_first in [false, true] {
        let held = semaphore.try_acquire_many(2).unwrap();
        let mut idle = Waiter::new(semaphore.wait_idle());
        let mut taker = Waiter::new(semaphore.acquire());
        if taker_comes_first {
            assert!(taker.is_pending() && idle.is_pending());
        } else {
            assert!(idle.is_pending() && taker.is_pending());
        }
        drop(held);
        assert_eq!(taker.wakes(), 1);
        let permit = taker.granted();
        drop(permit);
        assert!(idle.wakes() > 0);
        idle.output();
    }
    two_releases_wake_two_threads();
}

fn two_releases_wake_two_threads() {
    let semaphore = CondvarSemaphore::new(2);
    let both_inside = Barrier::new(2);
    let held = [
        semaphore.try_acquire().unwrap(),
        semaphore.try_acquire().unwrap(),
    ];
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let _permit = semaphore.acquire().wait().unwrap();
                // Nobody leaves before the other one has come, and so nobody is woken by that.
                both_inside.wait();
            });
        }
        while semaphore.snapshot().waiting < 2 {
            thread::yield_now();
        }
        drop(held);
    });
    assert_eq!(
        (semaphore.snapshot().available, semaphore.snapshot().waiting),
        (2, 0)
    );
}
