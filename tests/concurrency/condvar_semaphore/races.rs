//! Many rounds of two things that happen at once.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use tollgate::{CondvarSemaphore, ErrorKind};

use super::{assert_at_rest, blocked};

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
