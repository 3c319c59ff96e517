//! What only the semaphore for threads promises: what ends a wait, and that nothing is lost when it
//! ends. What it has in common with every throttle is in `contracts/conformance/limits.rs`.
//!
//! That a thread is about to sleep, or sleeps, is known by [`blocked`], which looks at `waiting()`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use tollgate::{CondvarSemaphore, ErrorKind};

use crate::support::kind;

#[cfg(feature = "tokio")]
mod tokens;

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

const SHORT: Duration = Duration::from_millis(3);
const LONG: Duration = Duration::from_secs(3600);

/// With the longest it would last for an hour.
#[test]
fn a_blocked_thread_times_out_after_the_shortest_of_its_timeouts_and_is_not_early() {
    let semaphore = CondvarSemaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let begun = Instant::now();
    let requests = [
        semaphore.acquire().timeout(SHORT),
        semaphore.acquire().timeout(LONG).timeout(SHORT),
        semaphore.acquire().timeout(SHORT).timeout(LONG),
        semaphore
            .acquire()
            .timeout(LONG)
            .timeout(SHORT)
            .timeout(LONG),
    ];
    for request in requests {
        assert_eq!(kind(request.wait()), ErrorKind::TimedOut);
    }
    assert!(begun.elapsed() >= 4 * SHORT, "it was early");
    let zero = semaphore.acquire().timeout(Duration::ZERO).timeout(LONG);
    assert_eq!(kind(zero.wait()), ErrorKind::TimedOut);
    assert_eq!(
        (semaphore.snapshot().waiting, semaphore.snapshot().available),
        (0, 0)
    );
    drop(held);
    assert_at_rest(&semaphore);
}

#[test]
fn a_free_permit_and_a_close_come_before_any_deadline() {
    let semaphore = CondvarSemaphore::new(1);
    let durations = [
        Duration::ZERO,
        Duration::from_nanos(1),
        SHORT,
        LONG,
        Duration::MAX,
    ];
    for duration in durations {
        drop(semaphore.acquire().timeout(duration).wait().unwrap());
    }
    let _held = semaphore.try_acquire().unwrap();
    semaphore.close();
    for duration in durations {
        let refused = semaphore.acquire().timeout(duration).wait();
        assert_eq!(kind(refused), ErrorKind::Closed);
    }
}

#[test]
fn a_long_wait_ends_with_a_permit_or_by_closing() {
    for duration in [LONG, Duration::MAX] {
        let semaphore = CondvarSemaphore::new(1);
        let held = semaphore.try_acquire().unwrap();
        thread::scope(|scope| {
            let waiting = || semaphore.acquire().timeout(duration).wait().map(drop);
            let served = scope.spawn(waiting);
            blocked(&semaphore, 1);
            drop(held);
            served.join().unwrap().unwrap();

            let held = semaphore.try_acquire().unwrap();
            let refused = scope.spawn(waiting);
            blocked(&semaphore, 1);
            semaphore.close();
            assert_eq!(kind(refused.join().unwrap()), ErrorKind::Closed);
            drop(held);
        });
        assert_at_rest(&semaphore);
    }
}

/// The time is that of the wait, and not that of the request.
#[test]
fn a_request_that_is_kept_does_not_age() {
    let semaphore = CondvarSemaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let request = semaphore.acquire().timeout(SHORT);
    assert_eq!(
        kind(semaphore.acquire().timeout(2 * SHORT).wait()),
        ErrorKind::TimedOut
    );
    let begun = Instant::now();
    assert_eq!(kind(request.wait()), ErrorKind::TimedOut);
    assert!(begun.elapsed() >= SHORT, "it was early");
    drop(held);
}

#[test]
fn one_that_times_out_does_not_disturb_the_others() {
    let semaphore = CondvarSemaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    thread::scope(|scope| {
        let patient = scope.spawn(|| drop(semaphore.acquire().wait().unwrap()));
        blocked(&semaphore, 1);
        let refused = semaphore.acquire().timeout(SHORT).wait();
        assert_eq!(kind(refused), ErrorKind::TimedOut);
        assert_eq!(semaphore.snapshot().waiting, 1);
        drop(held);
        patient.join().unwrap();
    });
    assert_at_rest(&semaphore);
}

/// Whether the deadline or the permit comes first, the other one who waits gets in.
#[test]
fn a_deadline_that_races_with_a_release_loses_nothing() {
    let semaphore = CondvarSemaphore::new(1);
    for round in 0..500 {
        let held = semaphore.try_acquire().unwrap();
        thread::scope(|scope| {
            let hurried = scope.spawn(|| {
                let soon = Duration::from_micros(30 + round % 60);
                match semaphore.acquire().timeout(soon).wait() {
                    Ok(permit) => drop(permit),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
                }
            });
            let patient = scope.spawn(|| drop(semaphore.acquire().wait().unwrap()));
            while semaphore.snapshot().waiting == 0 {
                thread::yield_now();
            }
            drop(held);
            hurried.join().unwrap();
            patient.join().unwrap();
        });
        assert_at_rest(&semaphore);
    }
}

/// However late it is noticed: the permit comes before the deadline.
#[test]
fn a_permit_that_came_in_time_is_received() {
    let semaphore = CondvarSemaphore::new(1);
    for round in 0..1000 {
        let soon = Duration::from_micros(50 + 10 * (round % 20));
        let held = semaphore.try_acquire().unwrap();
        thread::scope(|scope| {
            let begun = Instant::now();
            let waiting = scope.spawn(|| semaphore.acquire().timeout(soon).wait().is_ok());
            while semaphore.snapshot().waiting == 0 && !waiting.is_finished() {
                thread::yield_now();
            }
            drop(held);
            // The time began to run after `begun`, so it was not over yet.
            let in_time = begun.elapsed() < soon;
            assert!(waiting.join().unwrap() || !in_time, "it was timed out");
        });
        assert_at_rest(&semaphore);
    }
}

#[test]
fn closing_that_races_with_a_release_ends_every_wait() {
    for round in 0..300 {
        let semaphore = CondvarSemaphore::new(1);
        let held = semaphore.try_acquire().unwrap();
        let together = Barrier::new(2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| match semaphore.acquire().wait() {
                    Ok(permit) => drop(permit),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
                });
            }
            if round % 2 == 0 {
                blocked(&semaphore, 2);
            }
            scope.spawn(|| {
                together.wait();
                semaphore.close();
            });
            together.wait();
            drop(held);
        });
        assert_at_rest(&semaphore);
    }
}
