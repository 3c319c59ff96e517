//! Real threads that count who is inside: never more than the limit, and nothing lost at the end.
//!
//! A holder is counted under a lock between getting and giving back its permit, together with the
//! limit that holds at that moment; so a comparison is exact, however the threads are scheduled.
//! The random numbers have fixed seeds; what the scheduler does is its own affair.

mod resized;
#[cfg(feature = "tokio")]
mod tasks;
#[cfg(feature = "tokio")]
mod tokens;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;

use tollgate::{ErrorKind, OwnedPermit, Semaphore};

use crate::support::random::on_threads;
use crate::support::{Waiter, assert_at_rest, poll_once};

/// Who is inside, and how many may be.
pub(crate) struct Gauge(Mutex<Inside>);

struct Inside {
    now: usize,
    most: usize,
    ceiling: usize,
}

impl Gauge {
    pub(crate) fn new(ceiling: usize) -> Self {
        Self(Mutex::new(Inside {
            now: 0,
            most: 0,
            ceiling,
        }))
    }

    /// Goes in with so many permits, and out again.
    pub(crate) fn pass(&self, permits: usize) {
        self.enter(permits);
        thread::yield_now();
        self.exit(permits);
    }

    pub(crate) fn enter(&self, permits: usize) {
        let mut inside = self.0.lock().unwrap();
        inside.now += permits;
        inside.most = inside.most.max(inside.now);
        assert!(inside.now <= inside.ceiling, "too many are inside");
    }

    pub(crate) fn exit(&self, permits: usize) {
        self.0.lock().unwrap().now -= permits;
    }

    /// From now on so many may be inside; that many must not be already.
    pub(crate) fn set_ceiling(&self, ceiling: usize) {
        let mut inside = self.0.lock().unwrap();
        assert!(inside.now <= ceiling, "more are inside than a debt allows");
        inside.ceiling = ceiling;
    }

    /// Everybody is out, and somebody was in.
    pub(crate) fn assert_empty(&self) {
        let inside = self.0.lock().unwrap();
        assert_eq!(inside.now, 0);
        assert!(inside.most > 0);
    }
}

/// Some try, some wait, and half of the waits are given up: before, during and after they are granted.
#[test]
fn tries_and_waits_never_exceed_the_limit_and_waits_that_are_dropped_lose_nothing() {
    const LIMIT: u32 = 4;
    let semaphore = Semaphore::new(LIMIT as usize);
    let gauge = Gauge::new(LIMIT as usize);
    on_threads(4, |random| {
        for _ in 0..3000 {
            let cost = 1 + random.below(LIMIT);
            let mut acquire = semaphore.acquire_many(cost);
            match random.below(4) {
                0 => {
                    match semaphore.try_acquire_many(cost) {
                        Ok(permit) => gauge.pass(permit.count()),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NoPermits),
                    }
                    continue;
                }
                1 => {
                    gauge.pass(acquire.wait().unwrap().count());
                    continue;
                }
                _ => {}
            }
            for _ in 0..random.below(4) {
                if let Poll::Ready(permit) = poll_once(&mut acquire) {
                    gauge.pass(permit.unwrap().count());
                    break;
                }
                thread::yield_now();
            }
        }
    });
    gauge.assert_empty();
    assert_at_rest(&semaphore, LIMIT as usize);
}

#[test]
fn parts_of_permits_are_given_back_by_any_thread() {
    const LIMIT: u32 = 6;
    let semaphore = Arc::new(Semaphore::new(LIMIT as usize));
    let gauge = Gauge::new(LIMIT as usize);
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let dropper = scope.spawn(|| receiver.into_iter().map(drop).count());
        on_threads(3, |random| {
            let sender = sender.clone();
            for _ in 0..800 {
                let wait = Arc::clone(&semaphore)
                    .cost_owned(1 + random.below(LIMIT))
                    .acquire();
                let mut permit = wait.wait().unwrap();
                gauge.pass(permit.count());
                let part = permit.split(random.below(LIMIT) as usize);
                sender.send((permit, part)).unwrap();
            }
        });
        drop(sender);
        assert_eq!(dropper.join().unwrap(), 3 * 800);
    });
    gauge.assert_empty();
    assert_at_rest(&semaphore, LIMIT as usize);
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

#[test]
fn what_a_holder_wrote_is_seen_by_the_next() {
    let semaphore = Semaphore::new(1);
    let sum = Mutex::new(0_u64);
    on_threads(4, |_| {
        for _ in 0..1000 {
            let _permit = semaphore.acquire().wait().unwrap();
            // Held by nobody else, or the semaphore let two in.
            let mut sum = sum.try_lock().expect("somebody else is inside");
            thread::yield_now();
            *sum += 1;
        }
    });
    assert_eq!(sum.into_inner().unwrap(), 4000);
}

#[test]
fn a_drain_ends_whatever_is_going_on() {
    for _ in 0..20 {
        let semaphore = Semaphore::new(2);
        let gauge = Gauge::new(2);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while let Ok(permit) = semaphore.acquire().wait() {
                        gauge.pass(permit.count());
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..50 {
                    thread::yield_now();
                }
                semaphore.close();
                semaphore.wait_idle().wait();
                // Nobody is inside, and nobody will be.
                gauge.set_ceiling(0);
            });
        });
        assert_at_rest(&semaphore, 2);
    }
}

/// The permit comes back while somebody is about to join; nobody else will ever wake it.
#[test]
fn a_release_that_runs_into_a_join_is_not_missed() {
    const ROUNDS: usize = 3000;
    let semaphore = Arc::new(Semaphore::new(1));
    let handed_over = Mutex::new(None);
    let released = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while released.load(Ordering::SeqCst) < ROUNDS {
                let Some(permit) = handed_over.lock().unwrap().take() else {
                    thread::yield_now();
                    continue;
                };
                drop::<OwnedPermit>(permit);
                released.fetch_add(1, Ordering::SeqCst);
            }
        });
        for round in 0..ROUNDS {
            let mut waiter = Waiter::new(semaphore.acquire());
            *handed_over.lock().unwrap() = Arc::clone(&semaphore).try_acquire_owned().ok();
            for _ in 0..round % 64 {
                std::hint::spin_loop();
            }
            if let Poll::Ready(permit) = waiter.poll() {
                drop(permit.unwrap());
            } else {
                while released.load(Ordering::SeqCst) == round {
                    thread::yield_now();
                }
                assert_eq!(waiter.wakes(), 1);
                drop(waiter.granted());
            }
            while released.load(Ordering::SeqCst) == round {
                thread::yield_now();
            }
        }
    });
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_bounded_queue_is_never_longer_than_its_bound() {
    const BOUND: usize = 2;
    let semaphore = Semaphore::new(1).max_waiters(BOUND);
    let gauge = Gauge::new(1);
    on_threads(5, |_| {
        for _ in 0..800 {
            let mut waiter = Waiter::new(semaphore.acquire());
            loop {
                assert!(semaphore.snapshot().waiting <= BOUND);
                match waiter.poll() {
                    Poll::Pending => thread::yield_now(),
                    Poll::Ready(Ok(permit)) => {
                        gauge.pass(permit.count());
                        break;
                    }
                    Poll::Ready(Err(error)) => {
                        assert_eq!(error.kind(), ErrorKind::QueueFull);
                        break;
                    }
                }
            }
        }
    });
    gauge.assert_empty();
    assert_at_rest(&semaphore, 1);
}
