//! The longest single call of either thread while a million waiters are released at once.
//!
//! One thread releases them with one call, or refuses them with a hundred lowered limits, and another calls `try_acquire` until all are released. Every call is timed
//! by itself, by the processor time of its thread and by the clock. The result is the least of the rounds' longest
//! times, because a disturbance of the machine can only add to them.

use std::fmt::{self, Display};
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
use tollgate::rate::QuotaChange;
use tollgate::{Quota, RateLimiter, Semaphore};
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

/// The number of limits in a stepwise change.
const STEPS: u32 = 100;

/// A time by the processor time of the thread, and one by the clock.
#[derive(Clone, Copy)]
struct Took([Duration; 2]);

impl Took {
    fn of<R>(call: impl FnOnce() -> R) -> Self {
        let (watch, start) = (Stopwatch::now(), Instant::now());
        black_box(call());
        Self([watch.elapsed(), start.elapsed()])
    }

    fn with(self, other: Self, of: fn(Duration, Duration) -> Duration) -> Self {
        Self([of(self.0[0], other.0[0]), of(self.0[1], other.0[1])])
    }
}

const ROWS: [(&str, MakeCrowd); 10] = [
    ("rate limiter, set_quota", |count| {
        rate_limiter(count, raise(count))
    }),
    ("rate limiter, close", |count| {
        rate_limiter(count, RateLimiter::close)
    }),
    ("semaphore, close", semaphore),
    ("semaphore, 100 lower limits, equal costs", |count| {
        lowered(count, |_| 2)
    }),
    ("semaphore, 100 lower limits, 100 costs", |count| {
        lowered(count, |at| 2 + at % STEPS)
    }),
    ("tokio semaphore, add_permits", |count| {
        tokio(count, move |semaphore| semaphore.add_permits(count))
    }),
    ("tokio semaphore, close", |count| tokio(count, Tokio::close)),
    ("fair queue of a rate limiter, set_quota", |count| {
        let raise = raise(count);
        fair(count, Arc::new(spent()), move |limiter| raise(limiter))
    }),
    ("fair queue of a semaphore, set_permits", |count| {
        fair(count, Arc::new(Semaphore::new(0)), move |it| {
            it.set_permits(count);
        })
    }),
    ("fair queue of a semaphore, close", |count| {
        fair(count, Arc::new(Semaphore::new(0)), |it| {
            it.close();
        })
    }),
];

/// Prints the longest times of the releasing call, and of the bystander's calls.
pub(crate) fn print(options: &Options) {
    let (rounds, count) = options.choose([(1, 10_000), (2, 1_000_000), (crate::ROUNDS, 1_000_000)]);
    let mut table = Table::new(
        "operation | waiters | releases, us | by the clock | bystander, us | by the clock",
    );
    for (name, crowd) in ROWS {
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
        let [releases, bystander] = least.expect("there is a round");
        table.push(format!("{name} | {count} | {releases} | {bystander}"));
    }
    eprintln!();
    table.print(options.markdown);
}

impl Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [by_thread, by_clock] = self.0.map(|took| took.as_nanos() as f64 / 1e3);
        write!(f, "{by_thread:.1} | {by_clock:.1}")
    }
}

/// Returns the longest call of either thread.
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

/// Waiters of a throttle, each polled once, with functions that make a waiter wait, release them,
/// try, and count the remaining ones.
fn crowd<T: Send + Sync + 'static, F: Future + Send + 'static>(
    count: usize,
    throttle: T,
    wait: impl Fn(Arc<T>, u32) -> F,
    release: impl FnOnce(&T) + Send + 'static,
    bystander: fn(&T),
    waiting: fn(&T) -> usize,
) -> Crowd {
    let throttle = Arc::new(throttle);
    let [releases, tries, waits] = [(); 3].map(|()| Arc::clone(&throttle));
    let waiters = (0..count).map(|at| {
        let wait = wait(Arc::clone(&throttle), at as u32);
        let mut waiter: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async {
            wait.await;
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiter.as_mut().poll(&mut context).is_pending());
        waiter
    });
    Crowd {
        waiters: waiters.collect(),
        release: Box::new(move || release(&releases)),
        bystander: Box::new(move || bystander(&tries)),
        waiting: Box::new(move || waiting(&waits)),
    }
}

/// A limiter whose burst is spent.
fn spent() -> RateLimiter {
    let limiter = RateLimiter::new(Quota::per_hour(1));
    limiter.try_acquire().expect("it is the first");
    limiter
}

/// Gives it a quota that suffices for all waiters.
fn raise(count: usize) -> impl FnOnce(&RateLimiter) + Send {
    let all = Quota::per_hour(1000).burst(2 * count as u64);
    move |limiter| {
        limiter.set_quota_with(all, QuotaChange::KeepSpent);
    }
}

fn rate_limiter(count: usize, release: impl FnOnce(&RateLimiter) + Send + 'static) -> Crowd {
    crowd(
        count,
        spent(),
        |limiter, _| limiter.acquire_owned(),
        release,
        |limiter| drop(black_box(limiter.try_acquire())),
        |limiter| limiter.snapshot().waiting,
    )
}

fn semaphore(count: usize) -> Crowd {
    crowd(
        count,
        Semaphore::new(0),
        |semaphore, _| semaphore.acquire_owned(),
        Semaphore::close,
        |semaphore| drop(black_box(semaphore.try_acquire())),
        |semaphore| semaphore.snapshot().waiting,
    )
}

/// A semaphore whose limit falls step by step below the cost of each waiter. Its bystander takes the lock, unlike a try.
fn lowered(count: usize, cost: fn(u32) -> u32) -> Crowd {
    let semaphore = Arc::new(Semaphore::new(STEPS as usize + 1));
    let held = Arc::clone(&semaphore)
        .cost_owned(u64::from(STEPS) + 1)
        .try_acquire();
    crowd(
        count,
        semaphore,
        move |semaphore, at| {
            Semaphore::cost_owned(Arc::clone(&semaphore), cost(at).into()).acquire()
        },
        move |semaphore| {
            for limit in (1..=STEPS as usize).rev() {
                semaphore.set_permits(limit);
            }
            drop(held);
        },
        |semaphore| {
            black_box(semaphore.snapshot());
        },
        |semaphore| semaphore.snapshot().waiting,
    )
}

fn tokio(count: usize, release: impl FnOnce(&Tokio) + Send + 'static) -> Crowd {
    crowd(
        count,
        Tokio::new(0),
        |semaphore, _| semaphore.acquire_owned(),
        release,
        |semaphore| drop(black_box(semaphore.try_acquire())),
        |_| 0,
    )
}

/// Creates a fair queue in front of a throttle without permits. Its bystander is one more waiter, which leaves at once: a
/// caller that joins or leaves continues where a call has left off, just like a woken waiter that is polled.
fn fair<T: Queueable + Send + Sync + 'static>(
    count: usize,
    throttle: T,
    release: impl FnOnce(&T) + Send + 'static,
) -> Crowd {
    crowd(
        count,
        FairQueue::new(throttle),
        |queue, _| queue.class(0).acquire(),
        |queue| release(queue.throttle()),
        |queue| {
            let mut wait = queue.class(0).acquire();
            let mut context = Context::from_waker(Waker::noop());
            drop(black_box(Pin::new(&mut wait).poll(&mut context)));
        },
        |queue| queue.waiting(),
    )
}
