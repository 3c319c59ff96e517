//! [`Gradient2`]: the limit from the ratio of a long and a short mean latency.

use tollgate::adaptive::{Controller, SampleWindow, Target};

use super::target;

/// Multiplies the limit by the ratio of the long-term mean latency to the mean of the last window.
///
/// This is `Gradient2Limit` of Netflix's
/// [concurrency-limits](https://github.com/Netflix/concurrency-limits): with the exponential mean
/// `b` of some 600 windows and the mean `r` of the last one, the limit becomes
/// `L·clamp(1.5·b/r, 0.5, 1) + 4`; a fifth of the change is applied.
///
/// - Good at: latencies that drift on their own, because no minimum is remembered.
/// - Bad at: lasting overload. A latency that is 1.5 × the long-term mean never shrinks the limit,
///   and the long-term mean learns the queue that the limit itself has made. So under load that
///   lasts the limit grows to the end of its range, and `AdaptiveSemaphore` should have a tight
///   one. It ignores overloaded calls.
///
/// A window in which less than half of the limit was in flight changes only the long-term mean.
#[derive(Clone, Debug)]
pub(crate) struct Gradient2 {
    initial: f64,
    /// The part of a change that is applied.
    smoothing: f64,
    /// The long-term mean latency in nanoseconds.
    long: f64,
    windows: u32,
}

/// The length of the long-term mean, in windows, and how many make its beginning, which is a plain
/// mean.
const LONG: f64 = 600.0;
const WARM_UP: u32 = 10;

/// The calls that may be in the queue of the server.
const QUEUE: f64 = 4.0;

/// How many times the long-term mean a latency may be before the limit shrinks.
const TOLERANCE: f64 = 1.5;

impl Gradient2 {
    pub(crate) fn new(initial: f64) -> Self {
        Self {
            initial,
            smoothing: 0.2,
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
        // It comes down faster than it goes up: the queue that it has learned is gone.
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
        target(limit + (next - limit) * self.smoothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::tests::{overloaded, window};

    #[test]
    fn update_with_a_flat_latency_follows_the_closed_form() {
        let mut gradient = Gradient2::new(20.0);
        let mut limit = gradient.initial().limit;
        for expected in [20.8, 21.6, 22.4] {
            limit = gradient.update(&window(limit, 10, 20)).limit;
            assert!((limit - expected).abs() < 1e-9, "{limit}");
        }
    }

    #[test]
    fn update_with_a_rise_shrinks_by_half_at_most() {
        let mut gradient = Gradient2 {
            smoothing: 1.0,
            ..Gradient2::new(20.0)
        };
        for _ in 0..10 {
            gradient.update(&window(20.0, 10, 20));
        }
        assert_eq!(gradient.update(&window(20.0, 1_000, 20)).limit, 14.0);
        assert_eq!(gradient.update(&window(20.0, 1_000, 9)).limit, 20.0);
    }

    #[test]
    fn update_of_an_overloaded_window_changes_nothing() {
        assert_eq!(Gradient2::new(20.0).update(&overloaded(20.0)).limit, 20.0);
    }
}
