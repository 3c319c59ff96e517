//! Real threads that count the holders: never more than the limit, and nothing lost at the end.
//!
//! A holder is counted under a lock between acquiring and releasing its permit, together with the limit at
//! that moment; so a comparison is exact, however the threads are scheduled. The random numbers have fixed
//! seeds; the schedule does not. The schedules that rarely occur by chance are in `loom/tests/semaphore.rs`
//! and `shuttle/tests/schedules/`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tollgate::semaphore::Permit;
use tollgate::{AcquireError, ErrorKind, Semaphore};

use crate::support::random::{Random, on_threads};
use crate::support::{assert_at_rest, poll_once};

/// The holders inside, and the ceiling.
struct Gauge(Mutex<Inside>);

struct Inside {
    now: usize,
    most: usize,
    ceiling: usize,
}

impl Gauge {
    fn new(ceiling: usize) -> Self {
        Self(Mutex::new(Inside {
            now: 0,
            most: 0,
            ceiling,
        }))
    }

    /// Enters with this many permits, and leaves.
    fn pass(&self, permits: usize) {
        {
            let mut inside = self.0.lock().unwrap();
            inside.now += permits;
            inside.most = inside.most.max(inside.now);
            assert!(inside.now <= inside.ceiling, "too many are inside");
        }
        thread::yield_now();
        self.0.lock().unwrap().now -= permits;
    }

    /// Sets the ceiling; the present holders must not be above it.
    fn set_ceiling(&self, ceiling: usize) {
        let mut inside = self.0.lock().unwrap();
        assert!(inside.now <= ceiling, "more are inside than a debt allows");
        inside.ceiling = ceiling;
    }

    /// Asserts that every holder has left, and that there was one.
    fn assert_empty(&self) {
        let inside = self.0.lock().unwrap();
        assert_eq!(inside.now, 0);
        assert!(inside.most > 0);
    }
}

/// Some threads try, some wait, and half of the waits are given up: before, during and after the grant. Then some
/// threads also forget a part of their permit, and others are refused the missing part until it is added again.
#[test]
fn tries_and_waits_never_exceed_the_limit_and_lose_nothing_that_is_dropped_or_forgotten() {
    const LIMIT: u32 = 4;
    let semaphore = Semaphore::new(LIMIT as usize);
    let gauge = Gauge::new(LIMIT as usize);
    for forgets in [false, true] {
        let pass = |result: Result<Permit<&Semaphore>, AcquireError>, is_try: bool| match result {
            Ok(mut permit) => {
                gauge.pass(permit.count());
                if let Some(part) = permit.split(2).filter(|_| forgets) {
                    part.forget();
                    semaphore.add_permits(2);
                }
            }
            Err(error) => match error.kind() {
                ErrorKind::NoPermits => assert!(is_try),
                kind => assert!(forgets && kind == ErrorKind::ExceedsCapacity, "{kind:?}"),
            },
        };
        on_threads(4, |random| {
            for _ in 0..3000 {
                let cost = u64::from(1 + random.below(LIMIT));
                let mut acquire = semaphore.acquire_many(cost);
                match random.below(4) {
                    0 => pass(semaphore.try_acquire_many(cost), true),
                    1 => pass(acquire.wait(), false),
                    _ => {
                        for _ in 0..random.below(4) {
                            if let Poll::Ready(result) = poll_once(&mut acquire) {
                                pass(result, false);
                                break;
                            }
                            thread::yield_now();
                        }
                    }
                }
            }
        });
    }
    gauge.assert_empty();
    assert_at_rest(&semaphore, LIMIT as usize);
}

/// Raises the ceiling before growing. After shrinking, the ceiling stays until a caller is
/// admitted: by then the debt has been paid off, and the new limit is the ceiling.
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
        // Through a pause. Only the later lowering refuses the callers that came meanwhile.
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
                match semaphore
                    .acquire_many(u64::from(1 + random.below(LIMITS)))
                    .wait()
                {
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
fn waits_that_time_out_lose_nothing() {
    const LIMIT: u32 = 3;
    let semaphore = Semaphore::new(LIMIT as usize);
    let gauge = Gauge::new(LIMIT as usize);
    on_threads(4, |random| {
        for _ in 0..500 {
            let acquire = semaphore.acquire_many(u64::from(1 + random.below(LIMIT)));
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

#[cfg(feature = "tokio")]
#[test]
fn waits_that_are_cancelled_lose_nothing() {
    use std::sync::atomic::AtomicUsize;

    use tokio_util::sync::CancellationToken;

    const LIMIT: u32 = 3;
    const THREADS: u64 = 4;
    let semaphore = Semaphore::new(LIMIT as usize);
    let gauge = Gauge::new(LIMIT as usize);
    let tokens: [Mutex<CancellationToken>; THREADS as usize] = Default::default();
    let done = AtomicBool::new(false);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for slot in &tokens {
                    slot.lock().unwrap().clone().cancel();
                    thread::yield_now();
                }
            }
        });
        on_threads(THREADS, |random| {
            let slot = &tokens[next.fetch_add(1, Ordering::Relaxed)];
            for _ in 0..1000 {
                let token = CancellationToken::new();
                *slot.lock().unwrap() = token.clone();
                let acquire = semaphore.acquire_many(u64::from(1 + random.below(LIMIT)));
                match acquire.cancel_on(&token).wait() {
                    Ok(permit) => gauge.pass(permit.count()),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
                }
            }
        });
        done.store(true, Ordering::Relaxed);
    });
    gauge.assert_empty();
    assert_at_rest(&semaphore, LIMIT as usize);
}
