//! The longest single call of anybody while a million waiters are released at once.
//!
//! One thread releases them, by one call, and another calls `try_acquire` until all are released. Every call is timed by
//! itself, by the processor time of its thread and by the clock. What counts is the least of the longest times of the
//! rounds, because whatever disturbs the machine only adds to them.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore as Tokio;
use tollgate::fair::{FairQueue, Queueable};
use tollgate::{Quota, QuotaChange, RateLimiter, Semaphore};
use tollgate_bench::cells;
use tollgate_bench::harness::{Options, Stopwatch, Table};

/// A throttle with waiters.
struct Crowd {
    waiters: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Releases all of them.
    release: Box<dyn FnOnce() + Send>,
    /// Tries to be admitted.
    bystander: Box<dyn Fn()>,
    waiting: Box<dyn Fn() -> usize>,
}

type MakeCrowd = fn(usize) -> Crowd;

/// By the processor time of the thread, and by the clock.
#[derive(Clone, Copy)]
struct Took([Duration; 2]);

impl Took {
    fn of<R>(call: impl FnOnce() -> R) -> Self {
        let (watch, start) = (Stopwatch::start(), Instant::now());
        black_box(call());
        Self([watch.elapsed(), start.elapsed()])
    }

    fn with(self, other: Self, of: fn(Duration, Duration) -> Duration) -> Self {
        Self([of(self.0[0], other.0[0]), of(self.0[1], other.0[1])])
    }
}

/// Prints the longest times of the call that releases, and of the bystander's.
pub(crate) fn print(options: &Options) {
    let (rounds, count) = crate::crowds(options);
    let mut table = Table::new(&[
        "operation",
        "waiters",
        "releases, us",
        "by the clock",
        "bystander, us",
        "by the clock",
    ]);
    let rows: [(&str, MakeCrowd); 8] = [
        ("rate limiter, set_quota", set_quota),
        ("rate limiter, close", close),
        ("semaphore, close", semaphore_close),
        ("tokio semaphore, add_permits", tokio_add_permits),
        ("tokio semaphore, close", tokio_close),
        ("fair queue of a rate limiter, set_quota", fair_set_quota),
        ("fair queue of a semaphore, set_permits", fair_set_permits),
        ("fair queue of a semaphore, close", fair_close),
    ];
    for (name, crowd) in rows {
        let name = format!("crowd: {name}");
        if !options.wants(&name) {
            continue;
        }
        eprintln!("measuring: {name}");
        let longest = (0..rounds).map(|_| round(crowd(count)));
        let least = longest.reduce(|[releases, bystander], [again, beside]| {
            [
                releases.with(again, Duration::min),
                bystander.with(beside, Duration::min),
            ]
        });
        let times = least.expect("there is a round").map(|took| took.0).concat();
        let micros = times.iter().map(|took| took.as_nanos() as f64 / 1e3);
        let mut row = cells![name, count];
        row.extend(micros.map(|micros| format!("{micros:.1}")));
        table.push(row);
    }
    eprintln!();
    table.print(options.markdown);
}

/// The longest call of either thread.
fn round(crowd: Crowd) -> [Took; 2] {
    let Crowd {
        waiters,
        release,
        bystander,
        waiting,
    } = crowd;
    let released = AtomicBool::new(false);
    thread::scope(|scope| {
        let releases = scope.spawn(|| {
            let took = Took::of(release);
            released.store(true, Ordering::Release);
            took
        });
        let mut longest = Took([Duration::ZERO; 2]);
        while !released.load(Ordering::Acquire) || waiting() > 0 {
            longest = longest.with(Took::of(&bystander), Duration::max);
        }
        let releases = releases.join().expect("it ran through");
        drop(waiters);
        [releases, longest]
    })
}

/// So many waiters, each polled once.
fn crowd<F: Future + Send + 'static>(
    count: usize,
    wait: impl Fn() -> F,
    release: impl FnOnce() + Send + 'static,
    bystander: impl Fn() + 'static,
    waiting: impl Fn() -> usize + 'static,
) -> Crowd {
    let waiters = (0..count).map(|_| {
        let wait = wait();
        let mut waiter: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async {
            wait.await;
        });
        let polled = waiter
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        waiter
    });
    Crowd {
        waiters: waiters.collect(),
        release: Box::new(release),
        bystander: Box::new(bystander),
        waiting: Box::new(waiting),
    }
}

/// Waiters of what is shared: how each waits, who releases them, who tries, and how many are left.
fn shared<T: Send + Sync + 'static, F: Future + Send + 'static>(
    count: usize,
    throttle: T,
    wait: fn(Arc<T>) -> F,
    release: impl FnOnce(&T) + Send + 'static,
    bystander: fn(&T),
    waiting: fn(&T) -> usize,
) -> Crowd {
    let throttle = Arc::new(throttle);
    let [joins, releases, tries, waits] = [(); 4].map(|()| Arc::clone(&throttle));
    crowd(
        count,
        move || wait(Arc::clone(&joins)),
        move || release(&releases),
        move || bystander(&tries),
        move || waiting(&waits),
    )
}

/// A limiter whose burst is spent, and a quota for all who wait.
fn spent(count: usize) -> (RateLimiter, Quota) {
    let limiter = RateLimiter::new(Quota::per_hour(1));
    limiter.try_acquire().expect("it is the first");
    (limiter, Quota::per_hour(1000).burst(2 * count as u64))
}

fn rate_limiter(count: usize, release: impl FnOnce(&RateLimiter) + Send + 'static) -> Crowd {
    shared(
        count,
        spent(count).0,
        RateLimiter::acquire_owned,
        release,
        |limiter| drop(black_box(limiter.try_acquire())),
        |limiter| limiter.snapshot().waiting,
    )
}

fn set_quota(count: usize) -> Crowd {
    let (_, all) = spent(count);
    rate_limiter(count, move |limiter| {
        limiter.set_quota_with(all, QuotaChange::KeepSpent);
    })
}

fn close(count: usize) -> Crowd {
    rate_limiter(count, RateLimiter::close)
}

fn semaphore_close(count: usize) -> Crowd {
    shared(
        count,
        Semaphore::new(0),
        Semaphore::acquire_owned,
        Semaphore::close,
        |semaphore| drop(black_box(semaphore.try_acquire())),
        |semaphore| semaphore.snapshot().waiting,
    )
}

fn tokio_semaphore(count: usize, release: impl FnOnce(&Tokio) + Send + 'static) -> Crowd {
    shared(
        count,
        Tokio::new(0),
        Tokio::acquire_owned,
        release,
        |semaphore| drop(black_box(semaphore.try_acquire())),
        |_| 0,
    )
}

fn tokio_add_permits(count: usize) -> Crowd {
    tokio_semaphore(count, move |semaphore| semaphore.add_permits(count))
}

fn tokio_close(count: usize) -> Crowd {
    tokio_semaphore(count, Tokio::close)
}

/// A fair queue in front of a throttle without permits. Its bystander is one more waiter, which leaves at once: whoever
/// comes or leaves goes on where a call has left off, as a waiter does that was woken and is polled.
fn fair<T: Queueable + Send + Sync + 'static>(
    count: usize,
    throttle: T,
    release: impl FnOnce(&T) + Send + 'static,
) -> Crowd {
    let queue = FairQueue::new(throttle);
    let [joins, releases, comes, waits] = [(); 4].map(|()| queue.clone());
    crowd(
        count,
        move || joins.class(0).acquire(),
        move || release(releases.throttle()),
        move || {
            let mut wait = comes.class(0).acquire();
            let mut context = Context::from_waker(Waker::noop());
            drop(black_box(Pin::new(&mut wait).poll(&mut context)));
        },
        move || waits.waiting(),
    )
}

fn fair_set_quota(count: usize) -> Crowd {
    let (limiter, all) = spent(count);
    fair(count, Arc::new(limiter), move |limiter| {
        limiter.set_quota_with(all, QuotaChange::KeepSpent);
    })
}

fn fair_set_permits(count: usize) -> Crowd {
    fair(count, Arc::new(Semaphore::new(0)), move |semaphore| {
        semaphore.set_permits(count);
    })
}

fn fair_close(count: usize) -> Crowd {
    fair(count, Arc::new(Semaphore::new(0)), |semaphore| {
        semaphore.close();
    })
}
