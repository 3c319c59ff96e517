//! Sends the same calls through each algorithm.

use std::time::Duration;

use tollgate::time::ManualClock;
use tollgate::{Algorithm, Quota, RateLimiter};

use crate::steps::Pace;
use crate::steps::Steps;

/// Calls per second that each limiter admits in the long run.
pub(crate) const QUOTA: u64 = 40;

/// Calls that the algorithms with a burst of their own admit at once.
pub(crate) const BURST: u64 = 10;

#[derive(Debug)]
pub(crate) struct Algorithms {
    lanes: Vec<Lane>,
    pace: Pace,
    /// The calls of the button, which come in the next millisecond.
    at_once: u32,
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) admitted: Steps,
    limiter: RateLimiter,
}

impl Algorithms {
    pub(crate) fn new(clock: &ManualClock) -> Self {
        let lane = |&algorithm: &Algorithm| Lane {
            name: algorithm.to_string(),
            admitted: Steps::new(),
            limiter: RateLimiter::new(quota(algorithm))
                .algorithm(algorithm)
                .clock(clock),
        };
        Self {
            lanes: Algorithm::all().iter().map(lane).collect(),
            pace: Pace::new(60),
            at_once: 0,
        }
    }

    /// Sets the steady calls, and restarts the search for the maximum in a second.
    pub(crate) fn set_calls(&mut self, per_second: u32) {
        self.pace.set(per_second);
        for lane in &mut self.lanes {
            lane.admitted.forget_most();
        }
    }

    /// Makes `calls` calls in the next millisecond.
    pub(crate) fn burst(&mut self, calls: u32) {
        self.at_once += calls;
    }

    pub(crate) fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Makes the calls of the current millisecond.
    pub(crate) fn step(&mut self, now: u64) {
        let calls = self.pace.due() + std::mem::take(&mut self.at_once);
        for lane in &mut self.lanes {
            lane.admitted.advance(now);
            for _ in 0..calls {
                if lane.limiter.try_acquire().is_ok() {
                    lane.admitted.count(now);
                }
            }
        }
    }
}

/// Returns the quota for an algorithm. Windows and logs have no burst of their own. A token bucket
/// is refilled ten times per second, since a batch that does not fit into it is partly lost.
fn quota(algorithm: Algorithm) -> Quota {
    match algorithm {
        Algorithm::Gcra => Quota::per_second(QUOTA).burst(BURST),
        Algorithm::TokenBucket => Quota::new(QUOTA / 10, Duration::from_millis(100)).burst(BURST),
        _ => Quota::per_second(QUOTA),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number that each algorithm admitted in the last of three seconds, and the maximum in any second.
    fn admitted(calls: u32, bursts: &[u64]) -> Vec<(usize, usize)> {
        let clock = tollgate::Clock::manual();
        let mut algorithms = Algorithms::new(&clock);
        algorithms.set_calls(calls);
        for now in 1..3000 {
            clock.advance(Duration::from_millis(1));
            if bursts.contains(&now) {
                algorithms.burst(60);
            }
            algorithms.step(now);
        }
        let lanes = algorithms.lanes().iter();
        lanes
            .map(|lane| (lane.admitted.last_second(), lane.admitted.most()))
            .collect()
    }

    #[test]
    fn step_calls_below_the_quota_are_all_admitted() {
        assert_eq!(admitted(20, &[]), [(20, 20); 6]);
    }

    #[test]
    fn step_calls_above_the_quota_are_admitted_as_promised() {
        let expected = [(40, 49), (40, 47), (40, 41), (39, 40), (40, 40), (32, 33)];
        assert_eq!(admitted(100, &[]), expected);
    }

    #[test]
    fn burst_around_a_boundary_doubles_a_fixed_window_only() {
        // The order is: GCRA, token bucket, fixed window, sliding window, sliding log, sub-intervals.
        let most = admitted(0, &[1990, 2010]);
        let most: Vec<_> = most.iter().map(|it| it.1).collect();
        assert_eq!(most, [10, 14, 80, 40, 40, 16]);
    }

    #[test]
    fn set_calls_forgets_the_most() {
        let clock = tollgate::Clock::manual();
        let mut algorithms = Algorithms::new(&clock);
        algorithms.burst(60);
        algorithms.step(1);
        algorithms.step(1002);
        algorithms.set_calls(0);
        assert!(
            algorithms
                .lanes()
                .iter()
                .all(|lane| lane.admitted.most() == 0)
        );
    }
}
