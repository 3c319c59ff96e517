//! Waits that end after a time. That they end at all is what is tested, and that they are not early;
//! how late they are is the machine's affair.

use std::thread;
use std::time::{Duration, Instant};

use tollgate::{CondvarSemaphore, ErrorKind};

use super::{assert_at_rest, blocked};
use crate::support::kind;

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
