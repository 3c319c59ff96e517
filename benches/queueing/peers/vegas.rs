//! [`Vegas`]: the limit from an estimate of the server's queue.

use tollgate::adaptive::{Controller, SampleWindow, Target};

use super::target;

/// Keeps the server's queue, as estimated from the latency, between two bounds.
///
/// This is TCP Vegas (Brakmo and Peterson, 1995) as `VegasLimit` of Netflix's
/// [concurrency-limits](https://github.com/Netflix/concurrency-limits) has it: of a limit `L`,
/// `L·(1 − b/r)` calls are in the queue of the server, if `r` is the mean latency of a window, and
/// `b` the least of these so far. Below `3·log₁₀ L` the limit grows by `log₁₀ L`, and above `6·log₁₀ L` it
/// shrinks by that; without a queue it grows by `6·log₁₀ L`.
/// An overloaded call shrinks the limit. After `30·L` samples the next window replaces `b`.
///
/// - Good at: short, regular service times, because its steps are small.
/// - Bad at: baselines. A window that replaces `b` is measured at the full limit, so the server's
///   queue becomes a part of `b`, and the limit creeps up. Steps of `log₁₀ L` are slow after a
///   large change. A limit of up to 2.1 stays as it is unless all calls of a window are overloaded:
///   the 64 samples of each window replace `b`.
///
/// A window in which less than half of the limit was in flight changes nothing.
#[derive(Clone, Debug)]
pub(crate) struct Vegas {
    initial: f64,
    /// The least mean latency, in nanoseconds.
    baseline: Option<f64>,
    /// The samples since the baseline was replaced.
    samples: u64,
}

/// The baseline is replaced after so many samples, in units of the limit.
const REPLACE_AFTER: f64 = 30.0;

/// The queues, in units of `log₁₀ L`, below which the limit grows and above which it shrinks.
const ALPHA: f64 = 3.0;
const BETA: f64 = 6.0;

impl Vegas {
    pub(crate) fn new(initial: f64) -> Self {
        Self {
            initial,
            baseline: None,
            samples: 0,
        }
    }
}

impl Controller for Vegas {
    fn initial(&self) -> Target {
        target(self.initial)
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let limit = window.limit();
        let step = limit.log10().floor().max(1.0);
        let shrunk = || target((limit - step).max(1.0));
        self.samples = self.samples.saturating_add(u64::from(window.samples()));
        let Some(latency) = window.mean_latency() else {
            return shrunk();
        };
        let latency = latency.as_nanos() as f64;
        if self.samples as f64 >= REPLACE_AFTER * limit {
            self.samples = 0;
            self.baseline = None;
        }
        let Some(baseline) = self.baseline.filter(|baseline| latency >= *baseline) else {
            self.baseline = Some(latency);
            return target(limit);
        };
        let queue = (limit * (1.0 - baseline / latency)).ceil();
        if window.overloaded() > 0 {
            shrunk()
        } else if window.max_in_flight() as f64 * 2.0 < limit {
            target(limit)
        } else if queue <= step {
            target(limit + BETA * step)
        } else if queue < ALPHA * step {
            target(limit + step)
        } else if queue > BETA * step {
            shrunk()
        } else {
            target(limit)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::peers::tests::{overloaded, window};

    #[test]
    fn update_follows_the_closed_form() {
        let vegas = || {
            let mut vegas = Vegas::new(10.0);
            assert_eq!(vegas.update(&window(10.0, 10, 10)).limit, 10.0);
            vegas
        };
        assert_eq!(vegas().update(&window(10.0, 10, 10)).limit, 16.0);
        // A queue of ⌈10·(1 − 10/14)⌉ = 3 calls is as it should be.
        assert_eq!(vegas().update(&window(10.0, 14, 10)).limit, 10.0);
        assert_eq!(vegas().update(&window(10.0, 50, 10)).limit, 9.0);
        assert_eq!(vegas().update(&window(10.0, 50, 4)).limit, 10.0);
        assert_eq!(vegas().update(&overloaded(10.0)).limit, 9.0);
    }

    #[test]
    fn update_at_a_large_limit_makes_larger_steps() {
        let mut vegas = Vegas::new(20.0);
        vegas.update(&window(10_000.0, 10, 10_000));
        let limit = vegas.update(&window(10_000.0, 10, 10_000)).limit;
        assert_eq!(limit, 10_024.0);
    }

    #[test]
    fn update_after_thirty_times_the_limit_replaces_the_baseline() {
        let mut vegas = Vegas::new(20.0);
        vegas.update(&window(10.0, 10, 10));
        for _ in 2..300 {
            assert_eq!(vegas.update(&window(10.0, 50, 10)).limit, 9.0);
        }
        assert_eq!(vegas.update(&window(10.0, 50, 10)).limit, 10.0);
        assert_eq!(vegas.update(&window(10.0, 50, 10)).limit, 16.0);
    }

    #[test]
    fn update_at_a_limit_of_up_to_two_never_changes_it() {
        for (limit, next) in [(1.0, 1.0), (2.0, 2.0), (2.1, 2.1), (2.2, 8.2)] {
            let mut vegas = Vegas::new(limit);
            let mut window = SampleWindow::new(limit);
            let samples = vegas.initial().samples;
            (0..samples).for_each(|_| window.record(Duration::from_millis(10), 2));
            let all = (0..10).map(|_| vegas.update(&window).limit);
            assert_eq!(all.fold(0.0, f64::max), next);
        }
    }
}
