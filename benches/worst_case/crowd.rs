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
        ("crowd: rate limiter, set_quota", set_quota),
        ("crowd: rate limiter, close", close),
        ("crowd: semaphore, close", semaphore_close),
        ("crowd: tokio semaphore, add_permits", tokio_add_permits),
        ("crowd: tokio semaphore, close", tokio_close),
        (
            "crowd: fair queue of a rate limiter, set_quota",
            fair_set_quota,
        ),
        (
            "crowd: fair queue of a semaphore, set_permits",
            fair_set_permits,
        ),
        ("crowd: fair queue of a semaphore, close", fair_close),
    ];
    for (name, crowd) in rows {
        if !options.wants(name) {
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
        let mut row = vec![name.to_owned(), count.to_string()];
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

fn rate_limiter(count: usize, release: impl FnOnce(&RateLimiter) + Send + 'static) -> Crowd {
    let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1)));
    limiter.try_acquire().expect("it is the first");
    let [joins, releases, tries, waits] = [(); 4].map(|()| Arc::clone(&limiter));
    crowd(
        count,
        move || Arc::clone(&joins).acquire_owned(),
        move || release(&releases),
        move || drop(black_box(tries.try_acquire())),
        move || waits.snapshot().waiting,
    )
}

fn set_quota(count: usize) -> Crowd {
    let all = Quota::per_hour(1000).burst(2 * count as u64);
    rate_limiter(count, move |limiter| {
        limiter.set_quota_with(all, QuotaChange::KeepSpent);
    })
}

fn close(count: usize) -> Crowd {
    rate_limiter(count, RateLimiter::close)
}

fn semaphore_close(count: usize) -> Crowd {
    let semaphore = Arc::new(Semaphore::new(0));
    let [joins, releases, tries, waits] = [(); 4].map(|()| Arc::clone(&semaphore));
    crowd(
        count,
        move || Arc::clone(&joins).acquire_owned(),
        move || releases.close(),
        move || drop(black_box(tries.try_acquire())),
        move || waits.snapshot().waiting,
    )
}

fn tokio_semaphore(count: usize, release: impl FnOnce(&Tokio) + Send + 'static) -> Crowd {
    let semaphore = Arc::new(Tokio::new(0));
    let [joins, releases, tries] = [(); 3].map(|()| Arc::clone(&semaphore));
    crowd(
        count,
        move || Arc::clone(&joins).acquire_owned(),
        move || release(&releases),
        move || drop(black_box(tries.try_acquire())),
        || 0,
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
    let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1)));
    limiter.try_acquire().expect("it is the first");
    let all = Quota::per_hour(1000).burst(2 * count as u64);
    fair(count, limiter, move |limiter| {
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
        semaphore.close()
    })
}
