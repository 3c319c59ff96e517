//! What only the semaphore for threads promises: what ends a wait, and that nothing is lost when it
//! ends. What it has in common with every throttle is in `contracts/conformance/limits.rs`.
//!
//! That a thread is about to sleep, or sleeps, is known by [`blocked`], which looks at `waiting()`.

mod deadlines;
mod races;
#[cfg(feature = "tokio")]
mod token_races;
#[cfg(feature = "tokio")]
mod tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{CondvarSemaphore, ErrorKind};

use crate::support::kind;

/// Waits until so many threads wait.
pub(crate) fn blocked(semaphore: &CondvarSemaphore, threads: usize) {
    while semaphore.snapshot().waiting != threads {
        thread::yield_now();
    }
}

/// Everything has come back, nobody waits, and the whole limit can be had and no more.
#[track_caller]
pub(crate) fn assert_at_rest(semaphore: &CondvarSemaphore) {
    assert_eq!(semaphore.snapshot().available, semaphore.snapshot().limit);
    assert_eq!(semaphore.snapshot().waiting, 0);
    if !semaphore.is_closed() {
        let permits: Vec<_> = (0..semaphore.snapshot().limit)
            .map(|_| semaphore.try_acquire().expect("it is free"))
            .collect();
        assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
        drop(permits);
    }
}

#[test]
fn each_release_lets_in_one() {
    const THREADS: usize = 4;
    let semaphore = CondvarSemaphore::new(THREADS);
    let inside = AtomicUsize::new(0);
    let gate = CondvarSemaphore::new(THREADS);
    let keep_inside: Vec<_> = (0..THREADS).map(|_| gate.try_acquire().unwrap()).collect();
    let mut held: Vec<_> = (0..THREADS)
        .map(|_| semaphore.try_acquire().unwrap())
        .collect();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let _permit = semaphore.acquire().wait().unwrap();
                inside.fetch_add(1, Ordering::SeqCst);
                drop(gate.acquire().wait().unwrap());
            });
        }
        blocked(&semaphore, THREADS);
        for released in 1..=THREADS {
            drop(held.pop());
            while inside.load(Ordering::SeqCst) < released {
                thread::yield_now();
            }
            blocked(&semaphore, THREADS - released);
            assert_eq!(semaphore.snapshot().available, 0);
        }
        drop(keep_inside);
    });
    assert_at_rest(&semaphore);
}

#[test]
fn permits_come_back_after_close_and_are_not_handed_out() {
    let semaphore = CondvarSemaphore::new(2);
    let held = [(); 2].map(|()| semaphore.try_acquire().unwrap());
    assert!(!semaphore.is_closed());
    semaphore.close();
    assert!(semaphore.is_closed());
    assert_eq!(semaphore.snapshot().available, 0);
    drop(held);
    assert_eq!(
        (semaphore.snapshot().available, semaphore.snapshot().limit),
        (2, 2)
    );
    assert_eq!(kind(semaphore.acquire().wait()), ErrorKind::Closed);
    assert_at_rest(&semaphore);
}

#[test]
fn a_permit_knows_its_semaphore_and_a_leaked_one_lowers_the_limit() {
    let semaphore = CondvarSemaphore::new(2);
    let permit = semaphore.try_acquire().unwrap();
    assert!(std::ptr::eq(permit.semaphore(), &semaphore));
    std::mem::forget(permit);
    assert_eq!(semaphore.snapshot().available, 1);
    drop(semaphore.acquire());
    let held = semaphore.try_acquire().unwrap();
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    drop(held);
    assert_eq!(semaphore.snapshot().available, 1);
}

/// Both move to other threads; a request that is over or dropped keeps nothing alive.
#[test]
fn owned_permits_and_requests_keep_the_semaphore_as_long_as_they_live() {
    let semaphore = Arc::new(CondvarSemaphore::new(1));
    let shared = || Arc::clone(&semaphore);
    let held = shared().try_acquire_owned().unwrap();
    assert!(Arc::ptr_eq(held.semaphore(), &semaphore));
    let soon = Duration::from_micros(1);
    let refusals = [
        kind(shared().try_acquire_owned()),
        kind(shared().acquire_owned().timeout(Duration::ZERO).wait()),
        kind(shared().acquire_owned().timeout(soon).wait()),
    ];
    assert_eq!(refusals[0], ErrorKind::NoPermits);
    assert_eq!(refusals[1..], [ErrorKind::TimedOut; 2]);
    drop(shared().acquire_owned());
    assert_eq!(Arc::strong_count(&semaphore), 2);
    let request = shared().acquire_owned();
    let waiting = thread::spawn(move || request.wait().unwrap());
    blocked(&semaphore, 1);
    thread::spawn(move || drop(held)).join().unwrap();
    let permit = waiting.join().unwrap();
    semaphore.close();
    assert_eq!(kind(shared().acquire_owned().wait()), ErrorKind::Closed);
    let observer = Arc::downgrade(&semaphore);
    drop(semaphore);
    assert_eq!(observer.upgrade().unwrap().snapshot().available, 0);
    drop(permit);
    assert!(observer.upgrade().is_none());
}

#[test]
fn debug_shows_what_can_be_observed() {
    let semaphore = CondvarSemaphore::new(2);
    let permit = semaphore.try_acquire().unwrap();
    let shown =
        "CondvarSemaphore { permits: 2, available_permits: 1, waiting: 0, closed: false, .. }";
    assert_eq!(format!("{semaphore:?}"), shown);
    assert_eq!(
        format!("{permit:?}"),
        format!("Permit {{ count: 1, semaphore: {shown} }}")
    );
    let request = semaphore.acquire();
    assert_eq!(format!("{request:?}"), "Acquire { timeout: None, .. }");
    let request = request.timeout(Duration::from_millis(2));
    assert_eq!(format!("{request:?}"), "Acquire { timeout: Some(2ms), .. }");
    semaphore.close();
    assert!(format!("{semaphore:?}").contains("closed: true"));
}
