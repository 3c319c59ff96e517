//! Sends the same calls through a fixed window and a leaky bucket, across the edge of two windows.
//!
//! The panel is a value of its own, because the page shows it before it has computed the past of the others. Its
//! clock begins shortly before the calls and stands still after the last release, so a run can be repeated.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::rate::Charge;
use tollgate::time::ManualClock;
use tollgate::{AcquireError, Algorithm, Clock, LeakyBucket, Quota, RateLimiter};
use wasm_bindgen::prelude::wasm_bindgen;

/// The calls that both limiters admit in a window, which is a second.
const QUOTA: u32 = 10;

/// The millisecond in which the second window begins.
const EDGE: u32 = 1000;

/// The millisecond in which a run begins.
const BEGIN: u32 = 900;

/// The millisecond in which a run ends; the leaky bucket has released all calls.
const END: u32 = 3000;

/// The milliseconds in which calls come, one in each: as many on each side of the edge as a window admits.
const AROUND: Range<u32> = EDGE - QUOTA..EDGE + QUOTA;

/// A fixed window (limiter 0) and a leaky bucket (1), and the milliseconds in which calls came and started.
#[wasm_bindgen]
pub struct Edge {
    clock: ManualClock,
    now: u32,
    window: RateLimiter,
    bucket: Arc<LeakyBucket>,
    /// The calls in the leaky bucket.
    waiters: Vec<Waiter>,
    arrivals: Vec<u32>,
    starts: [Vec<u32>; 2],
}

type Waiter = Pin<Box<dyn Future<Output = Result<Charge, AcquireError>>>>;

#[wasm_bindgen]
impl Edge {
    /// Starts a run.
    #[wasm_bindgen(constructor)]
    #[expect(clippy::new_without_default, reason = "the page calls it")]
    pub fn new() -> Self {
        let clock = Clock::manual();
        let rate = Quota::per_second(QUOTA.into());
        let window = RateLimiter::new(rate).algorithm(Algorithm::FixedWindow);
        let bucket = LeakyBucket::new(rate, AROUND.len());
        let mut edge = Self {
            now: 0,
            window: window.clock(&clock),
            bucket: Arc::new(bucket.clock(&clock)),
            waiters: Vec::new(),
            arrivals: Vec::new(),
            starts: [Vec::new(), Vec::new()],
            clock,
        };
        edge.advance(BEGIN);
        edge
    }

    /// Advances by `milliseconds` milliseconds, one by one, until the end of the run.
    pub fn advance(&mut self, milliseconds: u32) {
        for _ in 0..milliseconds.min(END - self.now) {
            self.clock.advance(Duration::from_millis(1));
            self.now += 1;
            self.step();
        }
    }

    /// Returns the current millisecond.
    pub fn now(&self) -> u32 {
        self.now
    }

    /// Returns the number of calls that a window admits, the millisecond of the edge, the end, and for how many
    /// milliseconds calls come.
    pub fn scale(&self) -> Vec<u32> {
        vec![QUOTA, EDGE, END, AROUND.len() as u32]
    }

    /// Returns the milliseconds in which calls came.
    pub fn arrivals(&self) -> Vec<u32> {
        self.arrivals.clone()
    }

    /// Returns the milliseconds in which calls started.
    pub fn starts(&self, limiter: usize) -> Vec<u32> {
        self.starts[limiter].clone()
    }

    /// Returns whether all calls have come.
    pub fn came(&self) -> bool {
        self.arrivals.len() == AROUND.len()
    }

    /// Returns the number of calls that the fixed window admitted in each window.
    pub fn in_windows(&self) -> Vec<u32> {
        let mut counts = vec![0; (END / EDGE) as usize];
        for at in &self.starts[0] {
            counts[(at / EDGE) as usize] += 1;
        }
        counts
    }

    /// Returns the number of starts around the edge, while calls came.
    pub fn around(&self, limiter: usize) -> usize {
        let starts = self.starts[limiter].iter();
        starts.filter(|at| AROUND.contains(at)).count()
    }

    /// Returns the highest number of starts in any second.
    pub fn most(&self, limiter: usize) -> usize {
        let starts = &self.starts[limiter];
        let second = |from: u32| from..from + 1000;
        let within = |from: &u32| {
            starts
                .iter()
                .filter(|at| second(*from).contains(at))
                .count()
        };
        starts.iter().map(within).max().unwrap_or(0)
    }
}

impl Edge {
    /// Makes the call of the current millisecond, if any, and polls the calls that wait.
    fn step(&mut self) {
        let Self { now, starts, .. } = self;
        if AROUND.contains(now) {
            self.arrivals.push(*now);
            if self.window.try_acquire().is_ok() {
                starts[0].push(*now);
            }
            let bucket = Arc::clone(&self.bucket);
            self.waiters.push(Box::pin(bucket.acquire_owned()));
        }
        let mut context = Context::from_waker(Waker::noop());
        self.waiters.retain_mut(|waiter| {
            let Poll::Ready(charge) = waiter.as_mut().poll(&mut context) else {
                return true;
            };
            charge.expect("the bucket has room for every call and is never closed");
            starts[1].push(*now);
            false
        });
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edge")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advance_the_fixed_window_admits_twice_its_quota_around_the_edge() {
        let mut edge = Edge::new();
        edge.advance(END);
        let calls: Vec<_> = (990..1010).collect();
        assert_eq!((&edge.arrivals(), &edge.starts(0)), (&calls, &calls));
        assert_eq!((edge.around(0), edge.most(0)), (20, 20));
        assert_eq!(edge.in_windows(), [10, 10, 0]);
    }

    #[test]
    fn advance_the_leaky_bucket_releases_the_same_calls_at_its_rate() {
        let mut edge = Edge::new();
        edge.advance(END);
        let releases: Vec<_> = (0..20).map(|number| 990 + 100 * number).collect();
        assert_eq!(edge.starts(1), releases);
        assert_eq!((edge.around(1), edge.most(1)), (1, 10));
    }

    #[test]
    fn advance_stands_still_at_the_end() {
        let mut edge = Edge::new();
        assert_eq!((edge.now(), edge.arrivals().len()), (BEGIN, 0));
        edge.advance(108);
        assert_eq!((edge.now(), edge.came()), (1008, false));
        edge.advance(1);
        assert_eq!((edge.now(), edge.came()), (1009, true));
        edge.advance(10_000);
        assert_eq!(edge.now(), END);
    }
}
