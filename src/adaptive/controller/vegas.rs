//! [`Vegas`]: the limit from an estimate of the server's queue.

use super::{Controller, SampleWindow, Target, positive, target};

/// Keeps the server's queue, as estimated from the latency, between two bounds.
///
/// This is TCP Vegas (Brakmo and Peterson, 1995) as `VegasLimit` of Netflix's
/// [concurrency-limits](https://github.com/Netflix/concurrency-limits) has it: of a limit `L`,
/// `L·(1 − b/r)` calls are in the queue of the server, if `r` is the mean latency of a window, and
/// `b` the least of these so far. Below [`alpha`](Self::alpha)`·log₁₀ L` the limit grows by `log₁₀ L`, and
/// above [`beta`](Self::beta)`·log₁₀ L` it shrinks by that; without a queue it grows by `beta·log₁₀ L`.
/// An overloaded call shrinks the limit. After `30·L` samples the next window replaces `b`.
///
/// - Good at: short, regular service times, because its steps are small.
/// - Bad at: baselines. A window that replaces `b` is measured at the full limit, so the server's
///   queue becomes a part of `b`, and the limit creeps up. Steps of `log₁₀ L` are slow after a
///   large change. A limit of up to 2.1 stays as it is unless all calls of a window are overloaded:
///   the 64 samples of each window replace `b`.
///
/// A window in which less than half of the limit was in flight changes nothing.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::adaptive::{Controller, SampleWindow, Vegas};
///
/// let mut controller = Vegas::default().initial_limit(10.0);
/// let mut window = SampleWindow::new(10.0);
/// window.record(Duration::from_millis(10), 10);
/// assert_eq!(controller.update(&window).limit, 10.0); // the baseline
/// assert_eq!(controller.update(&window).limit, 16.0);
/// ```
#[derive(Clone, Debug)]
pub struct Vegas {
    initial: f64,
    alpha: f64,
    beta: f64,
    /// The least mean latency, in nanoseconds.
    baseline: Option<f64>,
    /// The samples since the baseline was replaced.
    samples: u64,
}

/// The baseline is replaced after so many samples, in units of the limit.
const REPLACE_AFTER: f64 = 30.0;

impl Default for Vegas {
    /// Starts at 20, with `alpha` 3 and `beta` 6, as Netflix's class does.
    fn default() -> Self {
        Self {
            initial: 20.0,
            alpha: 3.0,
            beta: 6.0,
            baseline: None,
            samples: 0,
        }
    }
}

impl Vegas {
    /// Sets the limit to begin with, by default 20.
    ///
    /// # Panics
    ///
    /// Panics if `limit` is not a finite number above 0.
    #[must_use]
    #[track_caller]
    pub fn initial_limit(self, limit: f64) -> Self {
        let initial = positive("initial limit", limit);
        Self { initial, ..self }
    }

    /// Sets the queue, in units of `log₁₀ L`, below which the limit grows. By default it is 3.
    ///
    /// # Panics
    ///
    /// Panics if `alpha` is not a finite number above 0.
    #[must_use]
    #[track_caller]
    pub fn alpha(self, alpha: f64) -> Self {
        let alpha = positive("alpha", alpha);
        Self { alpha, ..self }
    }

    /// Sets the queue, in units of `log₁₀ L`, above which the limit shrinks. By default it is 6.
    ///
    /// # Panics
    ///
    /// Panics if `beta` is not a finite number above 0.
    #[must_use]
    #[track_caller]
    pub fn beta(self, beta: f64) -> Self {
        let beta = positive("beta", beta);
        Self { beta, ..self }
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
            target(limit + self.beta * step)
        } else if queue < self.alpha * step {
            target(limit + step)
        } else if queue > self.beta * step {
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
    use crate::adaptive::controller::tests::{overloaded, window};

    #[test]
    fn update_follows_the_closed_form() {
        let vegas = || {
            let mut vegas = Vegas::default().initial_limit(10.0);
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
        let mut vegas = Vegas::default();
        vegas.update(&window(10_000.0, 10, 10_000));
        let limit = vegas.update(&window(10_000.0, 10, 10_000)).limit;
        assert_eq!(limit, 10_024.0);
    }

    #[test]
    fn update_after_thirty_times_the_limit_replaces_the_baseline() {
        let mut vegas = Vegas::default();
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
            let mut vegas = Vegas::default().initial_limit(limit);
            let mut window = SampleWindow::new(limit);
            let samples = vegas.initial().samples;
            (0..samples).for_each(|_| window.record(Duration::from_millis(10), 2));
            let all = (0..10).map(|_| vegas.update(&window).limit);
            assert_eq!(all.fold(0.0, f64::max), next);
        }
    }
}
