//! Shows tollgate in the browser: four panels whose time is a manual clock, which the page advances.
//!
//! Everything happens in whole milliseconds and depends on nothing else, so each run is the same: the
//! tests of this crate run natively and compare exactly.

mod adaptive;
mod algorithms;
mod backend;
mod edge;
mod queue;
mod steps;

use std::fmt;
use std::time::Duration;

use tollgate::Clock;
use tollgate::time::ManualClock;
use wasm_bindgen::prelude::wasm_bindgen;

use self::adaptive::{Adaptive, Point};
use self::algorithms::Algorithms;
use self::queue::Queue;

pub use self::edge::Edge;

/// The state of the panels below the first, which is an [`Edge`].
#[wasm_bindgen]
pub struct Playground {
    clock: ManualClock,
    /// Milliseconds since the beginning.
    now: u64,
    algorithms: Algorithms,
    queue: Queue,
    adaptive: Adaptive,
}

/// Controls the time.
#[wasm_bindgen]
impl Playground {
    /// Creates these panels at time 0.
    #[wasm_bindgen(constructor)]
    #[expect(clippy::new_without_default, reason = "the page calls it")]
    pub fn new() -> Self {
        let clock = Clock::manual();
        Self {
            now: 0,
            algorithms: Algorithms::new(&clock),
            queue: Queue::new(&clock),
            adaptive: Adaptive::new(&clock),
            clock,
        }
    }

    /// Advances the clock by `milliseconds` milliseconds, one by one.
    pub fn advance(&mut self, milliseconds: u32) {
        for _ in 0..milliseconds {
            self.clock.advance(Duration::from_millis(1));
            self.now += 1;
            self.algorithms.step(self.now);
            self.queue.step(self.now);
            self.adaptive.step(self.now);
        }
    }
}

/// Controls the algorithms.
#[wasm_bindgen]
impl Playground {
    /// Returns the names of the algorithms; the other methods take their index.
    pub fn algorithms(&self) -> Vec<String> {
        let lanes = self.algorithms.lanes().iter();
        lanes.map(|lane| lane.name.clone()).collect()
    }

    /// Returns the calls per second that each algorithm admits in the long run.
    pub fn quota(&self) -> u32 {
        algorithms::QUOTA as u32
    }

    /// Sets the number of calls per second.
    pub fn set_calls(&mut self, per_second: u32) {
        self.algorithms.set_calls(per_second);
    }

    /// Makes `calls` calls at once.
    pub fn burst(&mut self, calls: u32) {
        self.algorithms.burst(calls);
    }

    /// Returns the number of calls that an algorithm admitted in each of the last steps of 50 ms.
    pub fn admitted_steps(&self, algorithm: usize) -> Vec<u32> {
        self.algorithms.lanes()[algorithm].admitted.counts()
    }

    /// Returns the number of calls that an algorithm admitted in the last second, and the maximum in any second.
    pub fn admitted(&self, algorithm: usize) -> Vec<u32> {
        let admitted = &self.algorithms.lanes()[algorithm].admitted;
        vec![admitted.last_second() as u32, admitted.most() as u32]
    }
}

/// Controls the queue.
#[wasm_bindgen]
impl Playground {
    /// Returns the numbers of the waiters, in their order.
    pub fn waiting(&self) -> Vec<u32> {
        self.queue.waiting()
    }

    /// Cancels a waiter.
    pub fn cancel(&mut self, number: u32) {
        self.queue.cancel(number);
    }

    /// Fills the queue.
    pub fn refill(&mut self) {
        self.queue.refill();
    }

    /// Sets the number of waiters that are released per second.
    pub fn set_rate(&mut self, per_second: u32) {
        self.queue.set_rate(per_second);
    }

    /// Releases no waiter for this time.
    pub fn pause(&mut self, milliseconds: u32) {
        self.queue
            .pause_for(Duration::from_millis(milliseconds.into()));
    }

    /// Returns whether the limiter is paused.
    pub fn is_paused(&self) -> bool {
        self.queue.is_paused()
    }

    /// Returns how many seconds a new caller would wait.
    pub fn newcomer(&self) -> f64 {
        self.queue.wait_of_a_newcomer().as_secs_f64()
    }

    /// Returns the number of the last released waiter, or 0.
    pub fn last_released(&self) -> u32 {
        self.queue.last_released()
    }

    /// Returns the number of waiters that were released in each of the last steps of 50 ms.
    pub fn released_steps(&self) -> Vec<u32> {
        self.queue.released.counts()
    }

    /// Returns the number of waiters that were released in the last second.
    pub fn released(&self) -> u32 {
        self.queue.released.last_second() as u32
    }
}

/// Controls the adaptive limit. A chart has a point for each 100 ms, the oldest first.
#[wasm_bindgen]
impl Playground {
    /// Sets the number of workers, which then no longer changes automatically.
    pub fn set_workers(&mut self, workers: usize) {
        self.adaptive.set_workers(workers);
    }

    /// Lets the workers change automatically, or stay constant.
    pub fn set_cycling(&mut self, cycling: bool) {
        self.adaptive.set_cycling(cycling, self.now);
    }

    /// Returns whether the workers change automatically.
    pub fn is_cycling(&self) -> bool {
        self.adaptive.is_cycling()
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.adaptive.workers()
    }

    /// Returns the adaptive limits of all points, then the best fixed limits.
    pub fn limits(&self) -> Vec<f64> {
        self.chart(|it| [it.adaptive.limit as f64, it.best.limit as f64])
    }

    /// Returns the answers in time per second, of the adaptive and then of the best fixed limit.
    pub fn goodput(&self) -> Vec<f64> {
        self.chart(|it| [it.adaptive.goodput as f64, it.best.goodput as f64])
    }

    /// Returns the 99th percentile of the latency in milliseconds, in the same order.
    pub fn latency(&self) -> Vec<f64> {
        self.chart(|it| [it.adaptive.p99_ms, it.best.p99_ms])
    }

    fn chart(&self, values: impl Fn(&Point) -> [f64; 2]) -> Vec<f64> {
        let line = |at: usize| self.adaptive.points().iter().map(move |it| (it, at));
        let all = line(0).chain(line(1));
        all.map(|(point, at)| values(point)[at]).collect()
    }
}

impl fmt::Debug for Playground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Playground")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
