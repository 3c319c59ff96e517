//! [`EnvoyGradient`]: the limit from the ratio of the latency at a low limit to the latency now.

use tollgate::adaptive::{Controller, SampleWindow, Target};

use super::target;

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
#[derive(Clone, Debug)]
pub(crate) struct EnvoyGradient {
    /// The part by which the latency may exceed the baseline before the limit shrinks.
    buffer: f64,
    /// The number of samples after which the baseline is measured again.
    interval: u64,
    /// The log2 of the latency at the minimal limit.
    baseline: Option<f64>,
    /// The limit that comes back after the window that measures the baseline.
    deferred: Option<f64>,
    samples: u64,
    /// Windows in a row that left the limit at the minimum.
    at_minimum: u32,
}

/// The limit while the baseline is measured, which is the first and the least.
const MIN_CONCURRENCY: f64 = 3.0;

/// Envoy's default number of requests for a measurement of the baseline.
const BASELINE_SAMPLES: u32 = 50;

/// The baseline is measured again after so many windows at the minimum, as in Envoy.
const WINDOWS_AT_MINIMUM: u32 = 5;

impl Default for EnvoyGradient {
    /// Measures at 3 calls with a buffer of 0.25, as Envoy does, and every 60,000 samples, which at
    /// 1,000 calls a second is the minute of the example in Envoy's documentation.
    fn default() -> Self {
        Self {
            buffer: 0.25,
            interval: 60_000,
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
        Target {
            limit: MIN_CONCURRENCY,
            samples: BASELINE_SAMPLES,
        }
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
        let gradient = (1.0 + self.buffer) * (baseline - latency).exp2();
        let next = limit * gradient.clamp(0.5, 2.0);
        let next = (next + next.sqrt()).floor().max(MIN_CONCURRENCY);
        if next > MIN_CONCURRENCY {
            self.at_minimum = 0;
        } else {
            self.at_minimum += 1;
        }
        if self.samples >= self.interval || self.at_minimum >= WINDOWS_AT_MINIMUM {
            return self.measure(next);
        }
        target(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::tests::window;

    /// A controller that has measured a baseline of 10 ms.
    fn measured() -> EnvoyGradient {
        let mut envoy = EnvoyGradient {
            buffer: 0.0,
            ..EnvoyGradient::default()
        };
        assert_eq!(envoy.initial().limit, 3.0);
        assert_eq!(envoy.update(&window(3.0, 10, 3)).limit, 3.0);
        envoy
    }

    #[test]
    fn update_follows_the_closed_form() {
        let mut envoy = measured();
        let mut limit = 3.0;
        for expected in [4.0, 6.0, 8.0, 10.0, 13.0, 16.0, 20.0, 24.0] {
            limit = envoy.update(&window(limit, 10, 1)).limit;
            assert_eq!(limit, expected);
        }
        assert_eq!(envoy.update(&window(limit, 20, 24)).limit, 15.0);
    }

    #[test]
    fn update_after_the_interval_measures_the_baseline_again() {
        let mut envoy = EnvoyGradient {
            interval: 2,
            ..measured()
        };
        assert_eq!(envoy.update(&window(24.0, 20, 24)).limit, 15.0);
        assert_eq!(envoy.update(&window(15.0, 20, 15)).limit, 3.0);
        // The limit comes back, and 20 ms are the new baseline.
        assert_eq!(envoy.update(&window(3.0, 20, 3)).limit, 10.0);
        assert_eq!(envoy.update(&window(10.0, 20, 10)).limit, 13.0);
    }

    #[test]
    fn update_after_five_windows_at_the_minimum_measures_the_baseline_again() {
        let mut envoy = measured();
        for _ in 0..5 {
            assert_eq!(envoy.update(&window(3.0, 1_000, 3)).limit, 3.0);
        }
        envoy.update(&window(3.0, 1_000, 3));
        assert_eq!(envoy.update(&window(3.0, 1_000, 3)).limit, 4.0);
    }
}
