//! The promises of the semaphore for threads alone: the ways a wait ends, and that nothing is lost when it
//! ends. Calls that do not wait are rows of `model/scenarios.rs`; its waits block, which no poll can do. Its
//! common properties are checked in `contracts/conformance/limits.rs`, and races in
//! `loom/tests/condvar_semaphore.rs`.
//!
//! [`blocked`] detects a thread that sleeps or is about to, through `waiting()`.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tollgate::semaphore::Permit;
use tollgate::{CondvarSemaphore, ErrorKind};

use crate::support::kind;

const SHORT: Duration = Duration::from_millis(3);
const LONG: Duration = Duration::from_secs(3600);

/// Returns a semaphore of 1 that is held.
fn held() -> (Arc<CondvarSemaphore>, Permit<Arc<CondvarSemaphore>>) {
    let semaphore = Arc::new(CondvarSemaphore::new(1));
    let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    (semaphore, held)
}

/// Waits until this many threads wait.
fn blocked(semaphore: &CondvarSemaphore, threads: usize) {
    while semaphore.snapshot().waiting != threads {
        thread::yield_now();
    }
}

/// Asserts that the permit has come back, that there are no waiters, and that a caller can take it.
#[track_caller]
fn assert_at_rest(semaphore: &CondvarSemaphore) {
    let snapshot = semaphore.snapshot();
    assert_eq!((snapshot.available, snapshot.waiting), (1, 0));
    if !semaphore.is_closed() {
        let _permit = semaphore.try_acquire().expect("it is free");
        assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    }
}

/// Both move to other threads; a finished or dropped request keeps nothing alive.
#[test]
fn owned_permits_and_requests_keep_the_semaphore_as_long_as_they_live() {
    let (semaphore, held) = held();
    let shared = || Arc::clone(&semaphore);
    assert_eq!(kind(shared().try_acquire_owned()), ErrorKind::NoPermits);
    for soon in [Duration::ZERO, Duration::from_micros(1)] {
        let refused = shared().acquire_owned().timeout(soon).wait();
        assert_eq!(kind(refused), ErrorKind::TimedOut);
    }
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

/// With the longest timeout, the test would take an hour.
#[test]
fn a_blocked_thread_times_out_after_the_shortest_of_its_timeouts_and_is_not_early() {
    let (semaphore, held) = held();
    let acquire = || semaphore.acquire();
    let begun = Instant::now();
    let requests = [
        acquire().timeout(SHORT),
        acquire().timeout(LONG).timeout(SHORT),
        acquire().timeout(SHORT).timeout(LONG),
        acquire().timeout(LONG).timeout(SHORT).timeout(LONG),
    ];
    for request in requests {
        // The timeout counts from the wait, and not from the request.
        let waits = Instant::now();
        assert_eq!(kind(request.wait()), ErrorKind::TimedOut);
        assert!(waits.elapsed() >= SHORT, "it was early");
    }
    assert!(begun.elapsed() >= 4 * SHORT);
    let shown = format!("{:?}", acquire().timeout(SHORT));
    assert_eq!(shown, "Acquire { timeout: Some(3ms), .. }");
    let zero = acquire().timeout(Duration::ZERO).timeout(LONG);
    assert_eq!(kind(zero.wait()), ErrorKind::TimedOut);
    assert_eq!(semaphore.snapshot().waiting, 0);
    drop(held);
    assert_at_rest(&semaphore);
}

#[test]
fn a_free_permit_and_a_close_come_before_any_deadline() {
    let (semaphore, held) = held();
    drop(held);
    let nanosecond = Duration::from_nanos(1);
    let durations = [Duration::ZERO, nanosecond, SHORT, LONG, Duration::MAX];
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
    for (duration, closes) in [(LONG, false), (Duration::MAX, false), (Duration::MAX, true)] {
        let (semaphore, held) = held();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| semaphore.acquire().timeout(duration).wait().map(drop));
            blocked(&semaphore, 1);
            if closes {
                semaphore.close();
                assert_eq!(kind(waiting.join().unwrap()), ErrorKind::Closed);
                drop(held);
            } else {
                drop(held);
                waiting.join().unwrap().unwrap();
            }
        });
        assert_at_rest(&semaphore);
    }
}

/// Whether the deadline or the permit comes first, the other waiter gets in.
#[test]
fn a_deadline_that_races_with_a_release_loses_nothing() {
    for round in 0..500 {
        let (semaphore, held) = held();
        thread::scope(|scope| {
            scope.spawn(|| {
                let soon = Duration::from_micros(30 + round % 60);
                match semaphore.acquire().timeout(soon).wait() {
                    Ok(permit) => drop(permit),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
                }
            });
            scope.spawn(|| drop(semaphore.acquire().wait().unwrap()));
            while semaphore.snapshot().waiting == 0 {
                thread::yield_now();
            }
            drop(held);
        });
        assert_at_rest(&semaphore);
    }
}

/// However late the thread notices: the permit comes before the deadline.
#[test]
fn a_permit_that_came_in_time_is_received() {
    for round in 0..1000 {
        let soon = Duration::from_micros(50 + 10 * (round % 20));
        let (semaphore, held) = held();
        thread::scope(|scope| {
            let begun = Instant::now();
            let waiting = scope.spawn(|| semaphore.acquire().timeout(soon).wait().is_ok());
            while semaphore.snapshot().waiting == 0 && !waiting.is_finished() {
                thread::yield_now();
            }
            drop(held);
            // The timeout began after `begun`, so it was not over yet.
            let in_time = begun.elapsed() < soon;
            assert!(waiting.join().unwrap() || !in_time, "it was timed out");
        });
        assert_at_rest(&semaphore);
    }
}

/// Waits under a token.
#[cfg(feature = "tokio")]
mod tokens {
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[test]
    fn a_blocked_thread_is_woken_by_any_of_its_tokens_and_by_what_they_are_children_of() {
        for which in 0..3 {
            let mut tokens = [(); 3].map(|()| CancellationToken::new());
            let cancelled = tokens[which].clone();
            tokens[which] = match which {
                0 => cancelled.clone(),
                1 => cancelled.child_token(),
                _ => cancelled.child_token().child_token(),
            };
            let (semaphore, held) = held();
            thread::scope(|scope| {
                let request = semaphore.acquire().timeout(LONG);
                let request = tokens
                    .iter()
                    .fold(request, |all, token| all.cancel_on(token));
                let waiting = scope.spawn(|| kind(request.wait()));
                blocked(&semaphore, 1);
                cancelled.cancel();
                assert_eq!(waiting.join().unwrap(), ErrorKind::Cancelled);
            });
            assert_eq!(semaphore.snapshot().waiting, 0);
            drop(held);
            assert_at_rest(&semaphore);
        }
    }

    #[test]
    fn a_cancelled_token_wins_over_a_free_permit_and_every_other_refusal() {
        let (semaphore, held) = held();
        let (live, token) = (CancellationToken::new(), CancellationToken::new());
        token.cancel();
        let refused = || {
            let acquire = || semaphore.acquire();
            let requests = [
                acquire().cancel_on(&token),
                acquire().cancel_on(token.child_token()),
                acquire().cancel_on(&live).cancel_on(&token),
                acquire().cancel_on(&token).cancel_on(&live),
                acquire().cancel_on(&token).timeout(LONG),
                acquire().timeout(Duration::ZERO).cancel_on(&token),
            ];
            for request in requests {
                let refused = request.wait().unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::Cancelled);
                assert_eq!(refused.to_string(), "cancelled before waiting");
            }
        };
        refused();
        drop(held);
        refused();
        assert_at_rest(&semaphore);
        semaphore.close();
        refused();
        assert_at_rest(&semaphore);
    }

    /// This includes a token without handles, which can no longer be cancelled.
    #[test]
    fn a_token_that_is_not_cancelled_or_is_cancelled_too_late_changes_nothing() {
        let semaphore = CondvarSemaphore::new(1);
        let (late, parent) = (CancellationToken::new(), CancellationToken::new());
        let (child, sibling) = (parent.child_token(), parent.child_token());
        let held = semaphore.acquire().cancel_on(&late).wait().unwrap();
        thread::scope(|scope| {
            let request = semaphore.acquire().cancel_on(&parent).cancel_on(&child);
            let waiting = scope.spawn(|| drop(request.wait().unwrap()));
            blocked(&semaphore, 1);
            late.cancel();
            sibling.cancel();
            drop((child, parent));
            drop(held);
            waiting.join().unwrap();
        });
        assert_at_rest(&semaphore);
    }
}
