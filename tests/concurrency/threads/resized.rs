//! The limit moves while threads go in and out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tollgate::{ErrorKind, Semaphore};

use super::Gauge;
use crate::support::assert_at_rest;
use crate::support::random::{Random, on_threads};

/// Before growing the ceiling is raised. After shrinking it stays until somebody is admitted: then
/// the debt has been paid off, and from then on the new limit is the ceiling.
fn resize(semaphore: &Semaphore, gauge: &Gauge, random: &mut Random, limits: u32) {
    let old = semaphore.permits();
    let new = 1 + random.below(limits) as usize;
    if new > old {
        gauge.set_ceiling(new);
        if random.below(2) == 0 {
            semaphore.set_permits(new);
        } else {
            semaphore.add_permits(new - old);
        }
        return;
    }
    if new < old && random.below(4) == 0 {
        // By way of a pause. Only the lowering that follows refuses those who came meanwhile.
        semaphore.set_permits(0);
        semaphore.set_permits(old);
    }
    semaphore.set_permits(new);
    let permit = semaphore.acquire().wait().unwrap();
    gauge.set_ceiling(new);
    drop(permit);
}

#[test]
fn the_limit_holds_while_it_moves() {
    const LIMITS: u32 = 6;
    let semaphore = Semaphore::new(3);
    let gauge = Gauge::new(3);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(99);
            while !done.load(Ordering::Relaxed) {
                resize(&semaphore, &gauge, &mut random, LIMITS);
                thread::yield_now();
            }
        });
        on_threads(4, |random| {
            for _ in 0..3000 {
                match semaphore.acquire_many(1 + random.below(LIMITS)).wait() {
                    Ok(permit) => gauge.pass(permit.count()),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
                        assert!(error.capacity().is_some_and(|limit| limit < 6));
                    }
                }
            }
        });
        done.store(true, Ordering::Relaxed);
    });
    gauge.assert_empty();
    assert_at_rest(&semaphore, semaphore.permits());
}

#[test]
fn forgetting_and_adding_keep_the_count() {
    const LIMIT: usize = 8;
    let semaphore = Semaphore::new(LIMIT);
    let gauge = Gauge::new(LIMIT);
    on_threads(4, |random| {
        for _ in 0..2000 {
            let mut permit = match semaphore.acquire_many(1 + random.below(4)).wait() {
                Ok(permit) => permit,
                Err(error) => {
                    // Others have forgotten so much for the moment.
                    assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
                    continue;
                }
            };
            gauge.pass(permit.count());
            if let Some(part) = permit.split(1 + random.below(2) as usize) {
                let count = part.count();
                part.forget();
                semaphore.add_permits(count);
            }
        }
    });
    gauge.assert_empty();
    assert_at_rest(&semaphore, LIMIT);
}
