//! [`SampleWindow`]: the statistics of the calls since the last change of the limit, for a
//! controller.

use std::time::Duration;

use crate::debug::debug_as;
use tollgate::time::Tick;

/// The samples of a window: the calls that began in it, which is after the last change of the limit.
///
/// A call counts with its latency, or with the [cut](Self::cut) if it takes longer, even if it has not
/// ended yet. So a window shows `E[min(latency, cut)]` of all its calls, whatever the limit is.
///
/// Memory is constant: a window keeps sums and extremes, not samples.
#[derive(Clone, Copy, PartialEq)]
pub struct SampleWindow {
    limit: f64,
    cut: Duration,
    samples: u32,
    overloaded: u32,
    censored: u32,
    min_latency: Duration,
    total_latency: Duration,
    /// In seconds.
    total_squared: f64,
    total_log2: f64,
    max_in_flight: usize,
    total_in_flight: u64,
    /// The number of calls that have begun, and the first and the last beginning of those that have ended.
    begun: u32,
    began: (Tick, Tick),
    ended: Duration,
}

impl SampleWindow {
    /// Creates an empty window without a cut, for tests of a controller: the limiter makes its own.
    pub const fn new(limit: f64) -> Self {
        Self {
            limit,
            cut: Duration::MAX,
            samples: 0,
            overloaded: 0,
            censored: 0,
            min_latency: Duration::MAX,
            total_latency: Duration::ZERO,
            total_squared: 0.0,
            total_log2: 0.0,
            max_in_flight: 0,
            total_in_flight: 0,
            begun: 0,
            began: (Tick::from_nanos(u64::MAX), Tick::from_nanos(0)),
            ended: Duration::ZERO,
        }
    }

    /// Sets the latency from which on calls count as this long.
    #[must_use]
    pub const fn with_cut(self, cut: Duration) -> Self {
        Self { cut, ..self }
    }

    /// Sets the time of its end, and the number of calls that have begun in it.
    pub(crate) fn end_at(&mut self, time: Duration, begun: u32) {
        self.ended = time;
        self.begun = begun;
    }

    /// Adds the beginning of a call that has ended.
    pub(crate) fn began_at(&mut self, began: Tick) {
        let (first, last) = self.began;
        self.began = (first.min(began), last.max(began));
    }

    /// Adds calls that have not ended, and whose age has reached the cut.
    pub(crate) fn record_hanging(&mut self, calls: u32, in_flight: usize) {
        (0..calls).for_each(|_| self.record(self.cut, in_flight));
    }

    /// Adds a call that took `latency`. `in_flight` calls were in flight when it began, itself
    /// included.
    pub fn record(&mut self, latency: Duration, in_flight: usize) {
        self.count(in_flight);
        self.censored += u32::from(latency >= self.cut);
        let latency = latency.min(self.cut);
        self.min_latency = self.min_latency.min(latency);
        self.total_latency = self.total_latency.saturating_add(latency);
        self.total_squared += latency.as_secs_f64() * latency.as_secs_f64();
        // A latency of 0 counts as 1 ns.
        self.total_log2 += (latency.as_nanos().max(1) as f64).log2();
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

    /// Returns the latency from which on calls count as this long.
    pub fn cut(&self) -> Duration {
        self.cut
    }

    /// Returns the number of samples that took as long as the cut, or longer.
    pub fn censored(&self) -> u32 {
        self.censored
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

    /// Returns the standard error of [`mean_latency`](Self::mean_latency), if the latencies are
    /// independent. `None` if the window is empty or all calls were overloaded.
    pub fn error(&self) -> Option<Duration> {
        let n = f64::from(self.measured()?);
        let mean = self.total_latency.as_secs_f64() / n;
        // The difference of equal numbers can be less than 0.
        let variance = (self.total_squared / n - mean * mean).max(0.0);
        Duration::try_from_secs_f64((variance / n).sqrt()).ok()
    }

    /// Returns the mean of the logarithms of the latencies, to the base 2, in nanoseconds: 20 is
    /// about a millisecond, and one more is twice as long. A heavy tail does not dominate this
    /// mean. `None` if the window is empty or all calls were overloaded.
    pub fn mean_log2(&self) -> Option<f64> {
        self.measured().map(|n| self.total_log2 / f64::from(n))
    }

    /// Returns the calls that began per second, or `None` if fewer than two began at different times, or in a
    /// window that no limiter made.
    pub fn rate(&self) -> Option<f64> {
        let (first, last) = self.began;
        let seconds = last.saturating_since(first).as_secs_f64();
        let rate = f64::from(self.begun.saturating_sub(1)) / seconds;
        Some(rate).filter(|rate| rate.is_finite() && *rate > 0.0)
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
