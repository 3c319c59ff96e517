//! A long queue before a rate limiter, and the release time of each waiter.
//!
//! All waiters are tasks on a runtime of two workers. Each joins under one lock that also numbers
//! it: its number is its place in the queue. Joining takes all of them some milliseconds, while the
//! limiter already releases the first ones; so a few extra waiters, which are not counted, stand in
//! front. Each waiter records the instant of its release, and these instants number the releases:
//! the `i`-th release is not always that of the `i`-th waiter.
//!
//! For the counted releases, with `t(i)` the time of the `i`-th, counted from zero:
//!
//! - *rate* is `(n - 1) / (t(n - 1) - t(0))`;
//! - *lateness* is `t(i) - t(0) - i * interval`: 0 for the first, negative for early releases, and
//!   growing before a limiter that is slower than its rate;
//! - *lateness, strictly* is measured from the latest schedule that no release is ahead of, instead
//!   of from the first, so it is never negative: a late first release makes no limiter look better;
//! - *displacement* is the distance between a waiter's number in the order of releases and its
//!   place in the queue;
//! - *CPU* is the time of all threads of the process, from the first task to the last release. It
//!   includes tokio's own work for each task, which is the same for all.
//!
//! A run is cut off at three times its nominal duration; the figures then cover the waiters
//! released by that time.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tokio::runtime::{Builder, Runtime};
use tollgate::Quota;

use crate::limiters::{WaitLimiter, interval};
use simulations::spread::Spread;

/// The settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The number of counted waiters.
    pub counted: usize,
    /// The number of waiters in front of them.
    pub ahead: usize,
    /// The limiter's setting.
    pub quota: Quota,
}

/// The result of a measurement.
#[derive(Clone)]
pub struct Paced {
    /// The number of counted waiters that were released in time.
    pub released: usize,
    /// Releases a second.
    pub rate: f64,
    /// Microseconds behind the schedule that starts with the first.
    pub lateness: Spread,
    /// Microseconds behind the latest schedule that no release is ahead of.
    pub strictly: Spread,
    /// Places between arrival and release.
    pub displacement: Spread,
    /// Milliseconds of all processors.
    pub cpu: f64,
}

/// Not yet released.
const WAITING: u64 = u64::MAX;

struct Line<L> {
    limiter: L,
    started: Instant,
    /// The number of the next waiter to join.
    next: Mutex<usize>,
    /// The release times, in nanoseconds since the start.
    released: Vec<AtomicU64>,
    waiting: AtomicUsize,
    through: SyncSender<()>,
}

impl<L: WaitLimiter> Line<L> {
    async fn stand(self: Arc<Self>) {
        let place = {
            let mut wait = pin!(self.limiter.take());
            let mut place = None;
            poll_fn(|context| match place {
                None => {
                    let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
                    place = Some(*next);
                    *next += 1;
                    wait.as_mut().poll(context).map(drop)
                }
                Some(_) => wait.as_mut().poll(context).map(drop),
            })
            .await;
            place.expect("it has been polled")
        };
        let at = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(WAITING);
        self.released[place].store(at, Relaxed);
        // The last waiter sees the writes of all others.
        if self.waiting.fetch_sub(1, AcqRel) == 1 {
            let _ = self.through.try_send(());
        }
    }
}

/// Releases the whole queue through a limiter once.
///
/// # Panics
///
/// Panics if no thread can be started.
pub fn pace<L: WaitLimiter>(plan: &Plan) -> Paced {
    let (releases, cpu) = let_through::<L>(plan);
    figures(plan, &releases, cpu)
}

/// Returns the release times of a queue's counted waiters, in order, since the first of them.
///
/// # Panics
///
/// Panics if no thread can be started.
pub fn releases<L: WaitLimiter>(plan: &Plan) -> Vec<Duration> {
    let (releases, _) = let_through::<L>(plan);
    let counted = releases.get(plan.ahead..).unwrap_or_default();
    let first = counted.first().map_or(0, |&(at, _)| at);
    let since = counted
        .iter()
        .map(|&(at, _)| Duration::from_nanos(at - first));
    since.collect()
}

/// Returns each waiter's release time, in nanoseconds since the start, with its place, in order of
/// the times; and the processor time.
fn let_through<L: WaitLimiter>(plan: &Plan) -> (Vec<(u64, usize)>, Duration) {
    let workers = workers();
    let count = plan.ahead + plan.counted;
    let due = interval(plan.quota) * u32::try_from(count).expect("a line of a sensible length");
    let (through, all_through) = mpsc::sync_channel(1);
    let line = {
        let _timers = workers.enter();
        Arc::new(Line {
            limiter: L::with_quota(plan.quota),
            started: Instant::now(),
            next: Mutex::new(0),
            released: (0..count).map(|_| AtomicU64::new(WAITING)).collect(),
            waiting: AtomicUsize::new(count),
            through,
        })
    };

    let cpu = ProcessTime::now();
    for _ in 0..count {
        workers.spawn(Arc::clone(&line).stand());
    }
    let _ = all_through.recv_timeout(due * 3 + Duration::from_millis(200));
    let cpu = cpu.elapsed();

    // It pairs with the decrements, and makes the waiters' writes visible.
    line.waiting.load(Acquire);
    let mut releases: Vec<(u64, usize)> = line
        .released
        .iter()
        .enumerate()
        .map(|(place, at)| (at.load(Relaxed), place))
        .filter(|&(at, _)| at != WAITING)
        .collect();
    workers.shutdown_background();
    releases.sort_unstable();
    (releases, cpu)
}

fn workers() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("threads can be started")
}

fn figures(plan: &Plan, releases: &[(u64, usize)], cpu: Duration) -> Paced {
    let counted = releases.get(plan.ahead..).unwrap_or_default();
    let &[(first, _), .., (last, _)] = counted else {
        let nothing = Spread::of([f64::NAN]);
        return Paced {
            released: counted.len(),
            rate: 0.0,
            lateness: nothing,
            strictly: nothing,
            displacement: nothing,
            cpu: cpu.as_secs_f64() * 1e3,
        };
    };
    let interval = plan.quota.period().as_nanos() as f64 / plan.quota.count() as f64;
    let lateness: Vec<f64> = counted
        .iter()
        .enumerate()
        .map(|(number, &(at, _))| ((at - first) as f64 - number as f64 * interval) / 1e3)
        .collect();
    let earliest = lateness.iter().copied().fold(f64::INFINITY, f64::min);
    let places = (plan.ahead..).zip(counted);
    let displacement = places.map(|(number, &(_, place))| number.abs_diff(place) as f64);
    Paced {
        released: counted.len(),
        rate: (counted.len() - 1) as f64 * 1e9 / (last - first) as f64,
        strictly: Spread::of(lateness.iter().map(|late| late - earliest)),
        lateness: Spread::of(lateness),
        displacement: Spread::of(displacement),
        cpu: cpu.as_secs_f64() * 1e3,
    }
}
