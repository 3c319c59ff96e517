//! Controllers of other libraries, which the simulation runs beside those of tollgate.
//!
//! Each implements the public [`Controller`], with the defaults of its source.

use tollgate_adaptive::{Controller, SampleWindow, Target};

/// Returns a target with the windows of tollgate's controllers: each permit is used about twice, and a
/// mean has at least 64 samples.
fn target(limit: f64) -> Target {
    // A float is converted with saturation.
    let samples = (2.0 * limit) as u32;
    Target {
        limit,
        samples: samples.max(64),
    }
}

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
pub(crate) struct Vegas {
    initial: f64,
    /// The least mean latency, in nanoseconds.
    baseline: Option<f64>,
    /// The samples since the baseline was replaced.
    samples: u64,
}

/// The samples, in units of the limit, after which the baseline is replaced.
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

/// Multiplies the limit by the ratio of the long-term mean latency to the mean of the last window.
///
/// This is `Gradient2Limit` of Netflix's
/// [concurrency-limits](https://github.com/Netflix/concurrency-limits): with the exponential mean
/// `b` of some 600 windows and the mean `r` of the last one, the limit becomes
/// `L·clamp(1.5·b/r, 0.5, 1) + 4`; a fifth of the change is applied.
///
/// - Good at: latencies that drift on their own, because no minimum is remembered.
/// - Bad at: lasting overload. A latency of 1.5 × the long-term mean never shrinks the limit, and
///   the long-term mean learns the queue that the limit itself has made. So under lasting load the
///   limit grows to the end of its range, and `AdaptiveSemaphore` should have a tight range. It
///   ignores overloaded calls.
///
/// A window in which less than half of the limit was in flight changes only the long-term mean.
pub(crate) struct Gradient2 {
    initial: f64,
    /// The long-term mean latency in nanoseconds.
    long: f64,
    windows: u32,
}

/// The length of the long-term mean, in windows, and the number of windows at the start that form a
/// plain mean.
const LONG: f64 = 600.0;
const WARM_UP: u32 = 10;

/// The fraction of a change that is applied.
const SMOOTHING: f64 = 0.2;

/// The calls that may be in the server's queue.
const QUEUE: f64 = 4.0;

/// The ratio of latency to long-term mean at which the limit begins to shrink.
const TOLERANCE: f64 = 1.5;

impl Gradient2 {
    pub(crate) fn new(initial: f64) -> Self {
        Self {
            initial,
            long: 0.0,
            windows: 0,
        }
    }

    /// Adds a window to the long-term mean, and returns it.
    fn learn(&mut self, latency: f64) -> f64 {
        let weight = if self.windows < WARM_UP {
            self.windows += 1;
            1.0 / f64::from(self.windows)
        } else {
            2.0 / (LONG + 1.0)
        };
        self.long += (latency - self.long) * weight;
        let long = self.long;
        // It falls faster than it rises: the queue that it has learned is gone.
        if long > 2.0 * latency {
            self.long *= 0.95;
        }
        long
    }
}

impl Controller for Gradient2 {
    fn initial(&self) -> Target {
        target(self.initial)
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let limit = window.limit();
        let Some(latency) = window.mean_latency() else {
            return target(limit);
        };
        let latency = latency.as_nanos() as f64;
        let long = self.learn(latency);
        if (window.max_in_flight() as f64) < limit / 2.0 {
            return target(limit);
        }
        let gradient = (TOLERANCE * long / latency).clamp(0.5, 1.0);
        let next = limit * gradient + QUEUE;
        target(limit + (next - limit) * SMOOTHING)
    }
}

/// Multiplies the limit by the ratio of the latency at a minimal limit to the latency now, and adds
/// its square root.
///
/// This is the gradient controller of Envoy's [adaptive concurrency filter][filter]. It pins the
/// limit to 3 to measure the baseline `b`, at first, after 60,000 samples, and after five windows that
/// ended at that limit. From then on `g = clamp((1 + buffer)·b/r, 0.5, 2)`, and the limit is
/// `L·g + √(L·g)`, rounded down.
/// Envoy takes medians of latencies; here they are geometric means
/// ([`mean_log2`](SampleWindow::mean_log2)), which are the medians of a lognormal law, and need no
/// histogram. Envoy's windows and intervals are times; here they are numbers of samples, because a
/// controller has no clock.
///
/// - Good at: a changed service time, because the baseline is measured and not remembered.
/// - Bad at: measuring. While it measures, nearly all traffic waits. It does not see whether
///   the limit is used: under light load it grows to the end of its range, which then protects
///   nothing. It ignores overloaded calls.
///
/// [filter]: https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/adaptive_concurrency_filter
pub(crate) struct EnvoyGradient {
    /// The log2 of the latency at the minimal limit.
    baseline: Option<f64>,
    /// The limit that returns after the window that measures the baseline.
    deferred: Option<f64>,
    samples: u64,
    /// Windows in a row that left the limit at the minimum.
    at_minimum: u32,
}

/// The fraction by which the latency may exceed the baseline before the limit shrinks, as in Envoy.
const BUFFER: f64 = 0.25;

/// The number of samples after which the baseline is measured again: at 1,000 calls a second, the minute of the example
/// in Envoy's documentation.
const INTERVAL: u64 = 60_000;

/// The limit while the baseline is measured, which is the first and the least.
const MIN_CONCURRENCY: f64 = 3.0;

/// Envoy's default number of requests for a measurement of the baseline.
const BASELINE_SAMPLES: u32 = 50;

/// The number of windows at the minimum after which the baseline is measured again, as in Envoy.
const WINDOWS_AT_MINIMUM: u32 = 5;

impl Default for EnvoyGradient {
    fn default() -> Self {
        Self {
            baseline: None,
            deferred: Some(MIN_CONCURRENCY),
            samples: 0,
            at_minimum: 0,
        }
    }
}

impl EnvoyGradient {
    /// Measures the baseline in the next window, and then continues with `limit`.
    fn measure(&mut self, limit: f64) -> Target {
        self.deferred = Some(limit);
        self.at_minimum = 0;
        self.initial()
    }
}

impl Controller for EnvoyGradient {
    fn initial(&self) -> Target {
        Target {
            limit: MIN_CONCURRENCY,
            samples: BASELINE_SAMPLES,
        }
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let limit = window.limit();
        self.samples = self.samples.saturating_add(u64::from(window.samples()));
        let latency = window.mean_log2();
        if let Some(deferred) = self.deferred.take() {
            self.baseline = latency.or(self.baseline);
            self.samples = 0;
            return target(deferred);
        }
        let (Some(baseline), Some(latency)) = (self.baseline, latency) else {
            return self.measure(limit);
        };
        let gradient = (1.0 + BUFFER) * (baseline - latency).exp2();
        let next = limit * gradient.clamp(0.5, 2.0);
        let next = (next + next.sqrt()).floor().max(MIN_CONCURRENCY);
        if next > MIN_CONCURRENCY {
            self.at_minimum = 0;
        } else {
            self.at_minimum += 1;
        }
        if self.samples >= INTERVAL || self.at_minimum >= WINDOWS_AT_MINIMUM {
            return self.measure(next);
        }
        target(next)
    }
}

// The pictures in `docs`, which `tests/simulations.rs` compares, follow each formula; these tests
// cover the cases that the pictures do not reach.
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns a window of one call, or of one overloaded call.
    fn window(limit: f64, milliseconds: Option<u64>, in_flight: usize) -> SampleWindow {
        let mut window = SampleWindow::new(limit);
        match milliseconds {
            Some(latency) => window.record(Duration::from_millis(latency), in_flight),
            None => window.record_overloaded(in_flight),
        }
        window
    }

    #[test]
    fn update_of_an_overloaded_window_shrinks_vegas_alone() {
        let mut vegas = Vegas::new(10.0);
        vegas.update(&window(10.0, Some(10), 10));
        assert_eq!(vegas.update(&window(10.0, None, 10)).limit, 9.0);
        let mut gradient2 = Gradient2::new(20.0);
        assert_eq!(gradient2.update(&window(20.0, None, 20)).limit, 20.0);
    }

    #[test]
    fn update_of_gradient2_with_an_unused_window_changes_nothing() {
        let mut gradient2 = Gradient2::new(20.0);
        gradient2.update(&window(20.0, Some(10), 20));
        assert_eq!(gradient2.update(&window(20.0, Some(1_000), 9)).limit, 20.0);
    }

    #[test]
    fn update_of_vegas_at_a_limit_of_up_to_two_never_changes_it() {
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
