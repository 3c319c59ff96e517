//! Runs an adaptive limit in front of the simulated backend, next to the best fixed limit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tollgate::time::ManualClock;
use tollgate_adaptive::{AdaptivePermit, AdaptiveSemaphore, Gradient};

use crate::backend::{Backend, Performance, best_fixed};
use crate::steps::Pace;

/// Calls per second: more than the backend can answer with any number of workers.
const CALLS: u32 = 1200;

/// Milliseconds between two points of the charts, which show the last 40 seconds.
const POINT: u64 = 100;
const SHOWN: usize = 400;

/// The numbers of workers while they change automatically, each for this many milliseconds.
const CYCLE: [usize; 3] = [10, 4, 30];
const CYCLE_STEP: u64 = 20_000;

pub(crate) struct Adaptive {
    limit: Arc<AdaptiveSemaphore>,
    backend: Backend<AdaptivePermit<Arc<AdaptiveSemaphore>>>,
    pace: Pace,
    /// The best performance by number of workers, for the numbers requested so far.
    best: BTreeMap<usize, Performance>,
    points: VecDeque<Point>,
    /// The time at which the workers began to change automatically, if they do.
    cycling_since: Option<u64>,
}

/// A moment of the charts: the adaptive limit, and the best fixed one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) adaptive: Performance,
    pub(crate) best: Performance,
}

impl Adaptive {
    pub(crate) fn new(clock: &ManualClock) -> Self {
        Self {
            limit: Arc::new(AdaptiveSemaphore::new(Gradient::default()).clock(clock)),
            backend: Backend::new(CYCLE[0], 1),
            pace: Pace::new(CALLS),
            best: BTreeMap::new(),
            points: VecDeque::with_capacity(SHOWN),
            cycling_since: Some(0),
        }
    }

    /// Sets the number of workers, which no longer changes automatically.
    pub(crate) fn set_workers(&mut self, workers: usize) {
        self.cycling_since = None;
        self.backend.workers = workers.max(1);
    }

    /// Lets the workers change automatically, or stay constant.
    pub(crate) fn set_cycling(&mut self, cycling: bool, now: u64) {
        self.cycling_since = cycling.then_some(now);
    }

    pub(crate) fn is_cycling(&self) -> bool {
        self.cycling_since.is_some()
    }

    pub(crate) fn workers(&self) -> usize {
        self.backend.workers
    }

    /// Returns the moments that the charts show, the oldest first.
    pub(crate) fn points(&self) -> &VecDeque<Point> {
        &self.points
    }

    /// Makes the calls of the current millisecond. A call without a permit is refused.
    pub(crate) fn step(&mut self, now: u64) {
        if let Some(since) = self.cycling_since {
            let turn = (now - since) / CYCLE_STEP;
            self.backend.workers = CYCLE[turn as usize % CYCLE.len()];
        }
        self.backend.step(now);
        for _ in 0..self.pace.due() {
            if let Ok(permit) = Arc::clone(&self.limit).try_acquire_owned() {
                self.backend.call(permit, now);
            }
        }
        if now.is_multiple_of(POINT) {
            let workers = self.backend.workers;
            let best = *self
                .best
                .entry(workers)
                .or_insert_with(|| best_fixed(workers, CALLS));
            let adaptive = self
                .backend
                .performance(self.limit.snapshot().permits.limit);
            if self.points.len() == SHOWN {
                self.points.pop_front();
            }
            self.points.push_back(Point { adaptive, best });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::time::Duration;

    use super::*;

    fn run(adaptive: &mut Adaptive, clock: &ManualClock, times: Range<u64>) -> Point {
        for now in times {
            clock.advance(Duration::from_millis(1));
            adaptive.step(now);
        }
        *adaptive.points().back().expect("a point has been added")
    }

    #[test]
    fn step_the_limit_follows_the_workers() {
        let clock = tollgate::Clock::manual();
        let mut adaptive = Adaptive::new(&clock);
        for (turn, workers, best_fixed) in [(0, 10, 11), (1, 4, 5), (2, 30, 32), (3, 10, 11)] {
            let times = turn * CYCLE_STEP..(turn + 1) * CYCLE_STEP;
            let Point {
                adaptive: found,
                best,
            } = run(&mut adaptive, &clock, times);
            // This is the end of the turn. The law may change, and other tests judge it.
            assert_eq!((adaptive.workers(), best.limit), (workers, best_fixed));
            assert!((best_fixed..=2 * best_fixed).contains(&found.limit));
            assert!(found.goodput >= best.goodput * 95 / 100);
        }
    }

    #[test]
    fn set_workers_stops_the_cycle_until_it_is_set_again() {
        let clock = tollgate::Clock::manual();
        let mut adaptive = Adaptive::new(&clock);
        adaptive.set_workers(25);
        run(&mut adaptive, &clock, 0..CYCLE_STEP + 1);
        assert_eq!((adaptive.workers(), adaptive.is_cycling()), (25, false));

        adaptive.set_cycling(true, CYCLE_STEP);
        run(&mut adaptive, &clock, CYCLE_STEP + 1..CYCLE_STEP + 2);
        assert_eq!((adaptive.workers(), adaptive.is_cycling()), (10, true));
    }
}
