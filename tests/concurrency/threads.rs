//! Real threads that count who is inside: never more than the limit, and nothing lost at the end.
//!
//! A holder is counted under a lock between getting and giving back its permit, together with the
//! limit that holds at that moment; so a comparison is exact, however the threads are scheduled.
//! The random numbers have fixed seeds; what the scheduler does is its own affair.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;

use tollgate::{ErrorKind, OwnedPermit, Semaphore};

use crate::support::random::{Random, on_threads};
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

/// Tasks on a runtime with two threads: some are let in, some give up, and the limit moves.
#[cfg(feature = "tokio")]
mod tasks {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::task::{JoinSet, yield_now};
    use tokio_util::sync::CancellationToken;
    use tollgate::{ErrorKind, Semaphore};

    use super::Gauge;
    use crate::support::assert_at_rest;
    use crate::support::random::Random;

    /// Goes in with random weights, and gives up in random ways.
    async fn visitor(semaphore: Arc<Semaphore>, gauge: Arc<Gauge>, seed: u64, weights: u32) {
        let mut random = Random::new(seed);
        for _ in 0..200 {
            let acquire = semaphore.acquire_many(1 + random.below(weights));
            let entered = match random.below(5) {
                0 => {
                    tokio::select! {
                        biased;
                        entered = acquire => entered,
                        () = yield_now() => continue,
                    }
                }
                1 => {
                    let token = CancellationToken::new();
                    let cancelling = async {
                        yield_now().await;
                        token.cancel();
                    };
                    tokio::join!(acquire.cancel_on(&token), cancelling).0
                }
                2 => acquire.timeout(Duration::ZERO).await,
                _ => acquire.await,
            };
            match entered {
                Ok(permit) => {
                    gauge.enter(permit.count());
                    yield_now().await;
                    gauge.exit(permit.count());
                }
                Err(error) => assert!(matches!(
                    error.kind(),
                    ErrorKind::Cancelled | ErrorKind::TimedOut
                )),
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_limit_holds_for_tasks_while_it_moves() {
        let semaphore = Arc::new(Semaphore::new(6));
        let gauge = Arc::new(Gauge::new(6));
        let mut tasks = JoinSet::new();
        for seed in 0..32 {
            // Nobody asks for more than the lowest limit, so nobody is refused.
            tasks.spawn(visitor(Arc::clone(&semaphore), Arc::clone(&gauge), seed, 2));
        }
        for round in 0..200 {
            let (low, high) = (2 + round % 2, 6);
            semaphore.set_permits(low);
            // Admitted: so the debt is paid off.
            let permit = semaphore.acquire().await.unwrap();
            gauge.set_ceiling(low);
            drop(permit);
            yield_now().await;
            gauge.set_ceiling(high);
            semaphore.set_permits(high);
            yield_now().await;
        }
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
        gauge.assert_empty();
        assert_at_rest(&semaphore, 6);
    }

    /// Aborting drops a future at whatever point it has come to.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn aborted_tasks_lose_nothing() {
        let semaphore = Arc::new(Semaphore::new(2));
        let gauge = Arc::new(Gauge::new(2));
        for _ in 0..100 {
            let tasks: Vec<_> = (0..8)
                .map(|_| {
                    let (semaphore, gauge) = (Arc::clone(&semaphore), Arc::clone(&gauge));
                    tokio::spawn(async move {
                        let permit = semaphore.acquire_owned().await.unwrap();
                        gauge.pass(permit.count());
                        yield_now().await;
                    })
                })
                .collect();
            yield_now().await;
            for task in tasks.iter().step_by(2) {
                task.abort();
            }
            for task in tasks {
                if let Err(error) = task.await {
                    assert!(error.is_cancelled());
                }
            }
            assert_at_rest(&semaphore, 2);
        }
        gauge.assert_empty();
    }
}

/// Tokens are cancelled and times run out while threads wait.
#[cfg(feature = "tokio")]
mod tokens {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;
    use tollgate::{ErrorKind, Semaphore};

    use super::Gauge;
    use crate::support::assert_at_rest;
    use crate::support::random::{Random, on_threads};

    const LIMIT: u32 = 3;
    const THREADS: usize = 4;

    #[test]
    fn waits_that_are_cancelled_lose_nothing() {
        let semaphore = Semaphore::new(LIMIT as usize);
        let gauge = Gauge::new(LIMIT as usize);
        let tokens: [Mutex<CancellationToken>; THREADS] = Default::default();
        let running = AtomicUsize::new(THREADS);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for (seed, slot) in tokens.iter().enumerate() {
                let (semaphore, gauge, running) = (&semaphore, &gauge, &running);
                scope.spawn(move || {
                    let mut random = Random::new(seed as u64);
                    for _ in 0..1000 {
                        let token = CancellationToken::new();
                        *slot.lock().unwrap() = token.clone();
                        let acquire = semaphore.acquire_many(1 + random.below(LIMIT));
                        match acquire.cancel_on(&token).wait() {
                            Ok(permit) => gauge.pass(permit.count()),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
                        }
                    }
                    running.fetch_sub(1, Ordering::Relaxed);
                });
            }
            scope.spawn(|| {
                while running.load(Ordering::Relaxed) > 0 {
                    for slot in &tokens {
                        let token = slot.lock().unwrap().clone();
                        token.cancel();
                        thread::yield_now();
                    }
                }
                done.store(true, Ordering::Relaxed);
            });
        });
        assert!(done.into_inner());
        gauge.assert_empty();
        assert_at_rest(&semaphore, LIMIT as usize);
    }

    #[test]
    fn waits_that_time_out_lose_nothing() {
        let semaphore = Semaphore::new(LIMIT as usize);
        let gauge = Gauge::new(LIMIT as usize);
        on_threads(THREADS as u64, |random| {
            for _ in 0..500 {
                let acquire = semaphore.acquire_many(1 + random.below(LIMIT));
                let duration = Duration::from_micros(u64::from(random.below(50)));
                match acquire.timeout(duration).wait() {
                    Ok(permit) => gauge.pass(permit.count()),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
                }
            }
        });
        gauge.assert_empty();
        assert_at_rest(&semaphore, LIMIT as usize);
    }
}
