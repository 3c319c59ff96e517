//! Measures a long line in front of a rate limiter, and when each waiter is released.
//!
//! All waiters are tasks on a runtime of two workers. Each joins under one lock that also numbers
//! it: its number is its place in the line. Joining takes all of them some milliseconds, during
//! which the limiter already releases the first ones. So a few more waiters stand in front of the counted
//! ones. Each records the instant of its release, and
//! releases are numbered by these instants: the `i`-th release is not always that of the `i`-th in
//! line.
//!
//! Of the counted releases, with `t(i)` the time of the `i`-th, starting at 0:
//!
//! - *rate* is `(n - 1) / (t(n - 1) - t(0))`;
//! - *lateness* is `t(i) - t(0) - i * interval`: 0 for the first, negative for early releases, and
//!   growing for a limiter that is slower than its rate;
//! - *lateness, strictly* is measured from the latest schedule that no release is ahead of instead of
//!   from the first, so it is never negative. A first release that is late by itself improves no other
//!   figure;
//! - *displacement* is the distance between a waiter's number in the order of releases and its place in
//!   the line;
//! - *CPU* is the time of all threads of the process, from the first task to the last release. It
//!   includes tokio's own work for each task, which is the same for all.
//!
//! Waiters that are not released within three times the expected time are cut off; then the
//! figures are those of the released ones.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tokio::runtime::{Builder, Runtime};

use crate::peer::{Rate, WaitLimiter};

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The number of counted waiters.
    pub counted: usize,
    /// The number of waiters in front of them.
    pub ahead: usize,
    /// The rate of the limiter.
    pub rate: Rate,
}

/// The result of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    /// The number of counted waiters that were released in time.
    pub released: usize,
    /// Releases per second.
    pub rate: f64,
    /// Microseconds behind the schedule that starts with the first.
    pub lateness: Percentiles,
    /// Microseconds behind the latest schedule that no release is ahead of.
    pub strictly: Percentiles,
    /// Places between arrival and release.
    pub displacement: Percentiles,
    /// Milliseconds of all processors.
    pub cpu: f64,
}

/// Some figures, by rank.
#[derive(Clone, Copy, Debug)]
pub struct Percentiles {
    /// Half of the figures are below this one.
    pub median: f64,
    /// 99 of 100 figures are below this one.
    pub p99: f64,
    /// The greatest figure.
    pub max: f64,
}

impl Percentiles {
    fn of(mut figures: Vec<f64>) -> Percentiles {
        figures.sort_by(f64::total_cmp);
        let at = |share: f64| figures[((figures.len() - 1) as f64 * share).round() as usize];
        Percentiles {
            median: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

/// The mark of a waiter that is not released yet.
const WAITING: u64 = u64::MAX;

struct Line<L> {
    limiter: L,
    started: Instant,
    /// The number of the next waiter.
    next: Mutex<usize>,
    /// The time of each release, in nanoseconds since the start.
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
        // The last waiter sees the times that all others wrote.
        if self.waiting.fetch_sub(1, AcqRel) == 1 {
            let _ = self.through.try_send(());
        }
    }
}

/// Runs the whole line through a limiter once.
///
/// # Panics
///
/// If the machine cannot start the threads.
#[must_use]
pub fn pace<L: WaitLimiter>(plan: &Plan) -> Paced {
    let (releases, cpu) = let_through::<L>(plan);
    figures(plan, &releases, cpu)
}

/// Returns the times of the counted releases of a line, in order, since the first of them.
///
/// # Panics
///
/// If the machine cannot start the threads.
#[must_use]
pub fn releases<L: WaitLimiter>(plan: &Plan) -> Vec<Duration> {
    let (releases, _) = let_through::<L>(plan);
    let counted = releases.get(plan.ahead..).unwrap_or_default();
    let first = counted.first().map_or(0, |&(at, _)| at);
    let since = counted
        .iter()
        .map(|&(at, _)| Duration::from_nanos(at - first));
    since.collect()
}

/// Returns the time of each release, in nanoseconds since the start, with its place, ordered by
/// time; and the processor time used.
fn let_through<L: WaitLimiter>(plan: &Plan) -> (Vec<(u64, usize)>, Duration) {
    let workers = workers();
    let count = plan.ahead + plan.counted;
    let due = plan.rate.interval() * u32::try_from(count).expect("a line of a sensible length");
    let (through, all_through) = mpsc::sync_channel(1);
    let line = {
        let _timers = workers.enter();
        Arc::new(Line {
            limiter: L::with_rate(plan.rate),
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

    // This pairs with the decrements: the times that they announce are visible.
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
        let nothing = Percentiles::of(vec![f64::NAN]);
        return Paced {
            released: counted.len(),
            rate: 0.0,
            lateness: nothing,
            strictly: nothing,
            displacement: nothing,
            cpu: cpu.as_secs_f64() * 1e3,
        };
    };
    let interval = plan.rate.period.as_nanos() as f64 / f64::from(plan.rate.count);
    let lateness: Vec<f64> = counted
        .iter()
        .enumerate()
        .map(|(number, &(at, _))| ((at - first) as f64 - number as f64 * interval) / 1e3)
        .collect();
    let earliest = lateness.iter().copied().fold(f64::INFINITY, f64::min);
    let displacement = (plan.ahead..)
        .zip(counted)
        .map(|(number, &(_, place))| number.abs_diff(place) as f64)
        .collect();
    Paced {
        released: counted.len(),
        rate: (counted.len() - 1) as f64 * 1e9 / (last - first) as f64,
        strictly: Percentiles::of(lateness.iter().map(|late| late - earliest).collect()),
        lateness: Percentiles::of(lateness),
        displacement: Percentiles::of(displacement),
        cpu: cpu.as_secs_f64() * 1e3,
    }
}

/// Returns how long the last waiter of a line waits when all before it have given up: in units of the
/// interval, from the moment when the burst was taken. Returns `None` if it is not released after `patience`
/// intervals.
///
/// # Panics
///
/// If the machine cannot start the threads.
#[must_use]
pub fn last_of_cancelled<L: WaitLimiter>(count: usize, rate: Rate, patience: u32) -> Option<f64> {
    let workers = workers();
    let came = workers.block_on(async {
        let limiter = L::with_rate(rate);
        let start = Instant::now();
        limiter.take().await;
        let mut line: Vec<_> = (0..count).map(|_| Box::pin(limiter.take())).collect();
        for waiter in &mut line {
            // No waiter is released yet: joining takes less than an interval.
            poll_fn(|context| {
                assert!(waiter.as_mut().poll(context).is_pending(), "it is refused");
                Poll::Ready(())
            })
            .await;
        }
        let last = line.pop().expect("somebody is in line");
        drop(line);
        let patience = rate.interval() * patience;
        let came = tokio::time::timeout(patience, last).await.map(drop);
        came.is_ok().then(|| start.elapsed())
    });
    workers.shutdown_background();
    came.map(|after| after.as_secs_f64() / rate.interval().as_secs_f64())
}
