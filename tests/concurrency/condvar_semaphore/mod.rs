//! What the semaphore for threads promises: who is let in, what ends a wait, and that nothing is
//! lost when it ends.
//!
//! That a thread is about to sleep, or sleeps, is known by [`blocked`], which looks at `waiting()`.

mod deadlines;
mod owned;
mod races;
#[cfg(feature = "tokio")]
mod token_races;
#[cfg(feature = "tokio")]
mod tokens;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tollgate::{CondvarSemaphore, ErrorKind};

use crate::support::kind;

/// Waits until so many threads wait.
pub(crate) fn blocked(semaphore: &CondvarSemaphore, threads: usize) {
    while semaphore.waiting() != threads {
        thread::yield_now();
    }
}

/// Everything has come back, nobody waits, and the whole limit can be had and no more.
#[track_caller]
pub(crate) fn assert_at_rest(semaphore: &CondvarSemaphore) {
    assert_eq!(semaphore.available_permits(), semaphore.permits());
    assert_eq!(semaphore.waiting(), 0);
    if !semaphore.is_closed() {
        let permits: Vec<_> = (0..semaphore.permits())
            .map(|_| semaphore.try_acquire().expect("it is free"))
            .collect();
        assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
        drop(permits);
    }
}

#[test]
fn so_many_are_let_in_and_no_more() {
    let semaphore = CondvarSemaphore::new(3);
    assert_eq!(semaphore.permits(), 3);
    let mut permits = vec![semaphore.acquire().wait().unwrap()];
    permits.push(semaphore.try_acquire().unwrap());
    permits.push(semaphore.acquire().wait().unwrap());
    assert_eq!(semaphore.available_permits(), 0);
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    drop(permits.pop());
    assert_eq!(semaphore.available_permits(), 1);
    drop(semaphore.try_acquire().unwrap());
    drop(permits);
    assert_eq!(semaphore.permits(), 3);
    assert_at_rest(&semaphore);
}

#[test]
fn a_request_that_is_not_made_good_takes_nothing() {
    let semaphore = CondvarSemaphore::new(1);
    let request = semaphore.acquire();
    assert_eq!(semaphore.waiting(), 0);
    drop(semaphore.try_acquire().unwrap());
    drop(request);
    assert_at_rest(&semaphore);
}

#[test]
fn a_blocked_thread_is_let_in_by_a_release() {
    let semaphore = CondvarSemaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| drop(semaphore.acquire().wait().unwrap()));
        blocked(&semaphore, 1);
        drop(held);
        waiting.join().unwrap();
    });
    assert_at_rest(&semaphore);
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
            assert_eq!(semaphore.available_permits(), 0);
        }
        drop(keep_inside);
    });
    assert_at_rest(&semaphore);
}

/// Both come back before anybody has run.
#[test]
fn several_releases_at_once_let_in_as_many() {
    for _ in 0..50 {
        let semaphore = CondvarSemaphore::new(3);
        let both_inside = std::sync::Barrier::new(3);
        let held: Vec<_> = (0..3).map(|_| semaphore.try_acquire().unwrap()).collect();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let _permit = semaphore.acquire().wait().unwrap();
                    // They leave together, so nobody is let in by one who leaves.
                    both_inside.wait();
                });
            }
            blocked(&semaphore, 3);
            drop(held);
        });
        assert_at_rest(&semaphore);
    }
}

#[test]
fn closing_refuses_those_who_wait_and_those_who_come() {
    let semaphore = CondvarSemaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    assert!(!semaphore.is_closed());
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| kind(semaphore.acquire().wait())))
            .collect();
        blocked(&semaphore, 4);
        semaphore.close();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), ErrorKind::Closed);
        }
    });
    assert!(semaphore.is_closed());
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::Closed);
    assert_eq!(kind(semaphore.acquire().wait()), ErrorKind::Closed);
    // What is held is valid, and comes back; and is not handed out any more.
    assert_eq!(semaphore.available_permits(), 0);
    drop(held);
    semaphore.close();
    assert_eq!(semaphore.available_permits(), 1);
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::Closed);
    assert_eq!(kind(semaphore.acquire().wait()), ErrorKind::Closed);
    assert_eq!(semaphore.waiting(), 0);
}

#[test]
fn a_holder_that_panics_gives_its_permit_back() {
    let semaphore = CondvarSemaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    thread::scope(|scope| {
        let panics = scope.spawn(|| {
            let _permit = semaphore.acquire().wait().unwrap();
            panic!("a holder that panics on purpose");
        });
        blocked(&semaphore, 1);
        let waiting = scope.spawn(|| drop(semaphore.acquire().wait().unwrap()));
        blocked(&semaphore, 2);
        drop(held);
        assert!(panics.join().is_err());
        waiting.join().unwrap();
    });
    assert_at_rest(&semaphore);
}

#[test]
fn a_permit_knows_its_semaphore_and_a_leaked_one_lowers_the_limit() {
    let semaphore = CondvarSemaphore::new(2);
    let permit = semaphore.try_acquire().unwrap();
    assert!(std::ptr::eq(permit.semaphore(), &semaphore));
    std::mem::forget(permit);
    assert_eq!(semaphore.available_permits(), 1);
    let held = semaphore.try_acquire().unwrap();
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    drop(held);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn debug_shows_what_can_be_observed() {
    let semaphore = CondvarSemaphore::new(2);
    let permit = semaphore.try_acquire().unwrap();
    let shown =
        "CondvarSemaphore { permits: 2, available_permits: 1, waiting: 0, closed: false, .. }";
    assert_eq!(format!("{semaphore:?}"), shown);
    assert_eq!(format!("{permit:?}"), format!("Permit({shown})"));
    assert_eq!(
        format!("{:?}", semaphore.acquire()),
        "Acquire { timeout: None, .. }"
    );
    let soon = std::time::Duration::from_millis(2);
    let request = semaphore.acquire().timeout(soon);
    assert_eq!(format!("{request:?}"), "Acquire { timeout: Some(2ms), .. }");
    semaphore.close();
    assert!(format!("{semaphore:?}").contains("closed: true"));
}
