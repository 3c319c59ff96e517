//! [`SampleWindow`]: the statistics of the calls since the last change of the limit, for a
//! controller.

use std::time::Duration;

use crate::debug::debug_as;

/// The samples of a window. All its calls began after the last change of the limit.
///
/// Memory is constant: a window keeps sums and extremes, not samples.
#[derive(Clone, Copy, PartialEq)]
pub struct SampleWindow {
    limit: f64,
    samples: u32,
    overloaded: u32,
    min_latency: Duration,
    total_latency: Duration,
    total_log2: f64,
    total_log2_squared: f64,
    max_in_flight: usize,
    total_in_flight: u64,
    ended: Duration,
}

impl SampleWindow {
    /// Creates an empty window, for tests of a controller: the limiter makes its own.
    pub const fn new(limit: f64) -> Self {
        Self {
            limit,
            samples: 0,
            overloaded: 0,
            min_latency: Duration::MAX,
            total_latency: Duration::ZERO,
            total_log2: 0.0,
            total_log2_squared: 0.0,
            max_in_flight: 0,
            total_in_flight: 0,
            ended: Duration::ZERO,
        }
    }

    /// Sets the time of its end.
    pub(crate) fn end_at(&mut self, time: Duration) {
        self.ended = time;
    }

    /// Adds a call that took `latency`. `in_flight` calls were in flight when it began, itself
    /// included. A latency of 0 counts as 1 ns.
    pub fn record(&mut self, latency: Duration, in_flight: usize) {
        self.count(in_flight);
        let latency = latency.max(Duration::from_nanos(1));
        self.min_latency = self.min_latency.min(latency);
        self.total_latency = self.total_latency.saturating_add(latency);
        let log2 = (latency.as_nanos() as f64).log2();
        self.total_log2 += log2;
        self.total_log2_squared += log2 * log2;
    }

    /// Adds a call that failed because the other side is overloaded. Its latency is not counted.
    pub fn record_overloaded(&mut self, in_flight: usize) {
        self.count(in_flight);
        self.overloaded = self.overloaded.saturating_add(1);
    }

    fn count(&mut self, in_flight: usize) {
        self.samples = self.samples.saturating_add(1);
        self.max_in_flight = self.max_in_flight.max(in_flight);
        self.total_in_flight = self.total_in_flight.saturating_add(in_flight as u64);
    }

    /// Returns the limit that was in force, within the range of the limiter. It is the last
    /// [target](super::Target::limit), unless that was out of the range.
    pub fn limit(&self) -> f64 {
        self.limit
    }

    /// Returns the time at which the window ended: the time since the Unix epoch on the machine's
    /// clock, which is nearly the same on other machines. On a [clock](tollgate::Clock) other than the
    /// system's it is the time since that clock's epoch, and in a window that no limiter made it is
    /// 0.
    pub fn ended(&self) -> Duration {
        self.ended
    }

    /// Returns the number of samples, including overloaded ones.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns the number of samples that were overloaded.
    pub fn overloaded(&self) -> u32 {
        self.overloaded
    }

    /// Returns the number of samples with a latency.
    fn measured(&self) -> Option<u32> {
        Some(self.samples - self.overloaded).filter(|n| *n > 0)
    }

    /// Returns the shortest latency, or `None` if the window is empty or all calls were overloaded.
    pub fn min_latency(&self) -> Option<Duration> {
        self.measured().map(|_| self.min_latency)
    }

    /// Returns the mean latency, or `None` if the window is empty or all calls were overloaded.
    pub fn mean_latency(&self) -> Option<Duration> {
        self.measured().map(|n| self.total_latency / n)
    }

    /// Returns the mean of the logarithms of the latencies, to the base 2, in nanoseconds: 20 is
    /// about a millisecond, and one more is twice as long. A heavy tail does not dominate this
    /// mean. `None` if the window is empty or all calls were overloaded.
    pub fn mean_log2(&self) -> Option<f64> {
        self.measured().map(|n| self.total_log2 / f64::from(n))
    }

    /// Returns the standard error of [`mean_log2`](Self::mean_log2), if the latencies are independent.
    /// `None` if the window is empty or all calls were overloaded.
    pub fn error_log2(&self) -> Option<f64> {
        let mean = self.mean_log2()?;
        let n = f64::from(self.measured()?);
        // The difference of equal numbers can be less than 0.
        let variance = (self.total_log2_squared / n - mean * mean).max(0.0);
        Some((variance / n).sqrt())
    }

    /// Returns the largest number of calls that were in flight when one of the calls began.
    pub fn max_in_flight(&self) -> usize {
        self.max_in_flight
    }

    /// Returns the mean number of calls in flight when a call began, 0 in an empty window.
    pub fn mean_in_flight(&self) -> f64 {
        self.total_in_flight as f64 / f64::from(self.samples.max(1))
    }
}

debug_as! {
    [] SampleWindow, self => SampleWindow {
        limit: self.limit, samples: self.samples, overloaded: self.overloaded,
        mean_latency: self.mean_latency(), min_latency: self.min_latency(),
        max_in_flight: self.max_in_flight, ..
    }
}
