//! [`Naive`]: a controller that is right for one client and runs away in a fleet.

use std::time::Duration;

use tollgate::adaptive::{Controller, SampleWindow, Target};

/// Measures the latency at half of its limit now and then, and takes that for the latency without a
/// queue, however much it has grown.
///
/// For a single client, half of the limit does empty the queue. One of five clients that halves its
/// limit takes a tenth of the queue away: the rest of the queue becomes its baseline, and nothing looks
/// slow any more.
pub(crate) struct Naive {
    baseline: Duration,
    /// The limit to come back to, while the latency at half of it is measured.
    measuring: Option<f64>,
    windows: u32,
}

/// One window of so many measures.
const EVERY: u32 = 8;
const INITIAL: f64 = 10.0;

impl Default for Naive {
    fn default() -> Self {
        Self {
            baseline: Duration::ZERO,
            measuring: Some(INITIAL),
            windows: 0,
        }
    }
}

fn target(limit: f64) -> Target {
    let samples = (2.0 * limit).max(10.0) as u32;
    Target { limit, samples }
}

impl Controller for Naive {
    fn initial(&self) -> Target {
        target(INITIAL / 2.0)
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let latency = window.mean_latency().unwrap_or(self.baseline);
        if let Some(limit) = self.measuring.take() {
            self.baseline = latency;
            return target(limit);
        }
        let gradient = 1.2 * self.baseline.as_secs_f64() / latency.as_secs_f64().max(1e-9);
        let limit = window.limit() * gradient.clamp(0.5, 1.0) + window.limit().sqrt();
        self.windows += 1;
        if self.windows.is_multiple_of(EVERY) {
            self.measuring = Some(limit);
            return target(limit / 2.0);
        }
        target(limit)
    }
}
