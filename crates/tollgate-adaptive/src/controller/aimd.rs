//! [`Aimd`]: additive increase, multiplicative decrease.

use std::time::Duration;

use super::{Controller, Explanation, Reason, SampleWindow, Target, positive, target};

/// Adds 1 to the limit while calls succeed, and lowers it by a tenth when a call is overloaded.
///
/// This is the rule of TCP (Chiu and Jain, 1989), and of `AIMDLimit` in Netflix's
/// [concurrency-limits](https://github.com/Netflix/concurrency-limits). It needs a sign of
/// overload: a call that ends as overloaded, or a mean latency above [`timeout`](Self::timeout).
///
/// - Good at: servers that refuse early and cheaply. Nothing is estimated, so nothing drifts.
/// - Bad at: servers that queue. Without refusals the limit grows until the latency reaches the
///   timeout, or to the end of the range. Growth by 1 per window is slow after a large change.
///
/// A window in which at most half of the limit was in flight does not raise the limit.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_adaptive::{Aimd, Controller, SampleWindow};
///
/// let mut controller = Aimd::default().initial_limit(10.0);
/// let mut window = SampleWindow::new(10.0);
/// window.record(Duration::from_millis(3), 10);
/// assert_eq!(controller.update(&window).limit, 11.0);
/// window.record_overloaded(10);
/// assert_eq!(controller.update(&window).limit, 9.0);
/// ```
#[derive(Clone, Debug)]
pub struct Aimd {
    initial: f64,
    backoff: f64,
    timeout: Duration,
    explanation: Explanation,
}

/// The smallest number of samples for a mean.
const SAMPLES: u32 = 64;

impl Default for Aimd {
    /// Starts at 20, and multiplies by 0.9 above 5 seconds, like Netflix's class.
    fn default() -> Self {
        Self {
            initial: 20.0,
            backoff: 0.9,
            timeout: Duration::from_secs(5),
            explanation: Explanation::default(),
        }
    }
}

impl Aimd {
    /// Sets the initial limit, by default 20.
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

    /// Sets the factor that multiplies the limit on overload, by default 0.9.
    ///
    /// # Panics
    ///
    /// Panics if `backoff` is not above 0 and below 1.
    #[must_use]
    #[track_caller]
    pub fn backoff(self, backoff: f64) -> Self {
        assert!(
            backoff > 0.0 && backoff < 1.0,
            "the backoff factor must be above 0 and below 1, but it is {backoff}"
        );
        Self { backoff, ..self }
    }

    /// Sets the mean latency of a window above which it counts as overloaded, by default 5 seconds.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }
}

impl Controller for Aimd {
    fn initial(&self) -> Target {
        target(self.initial, SAMPLES)
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let limit = window.limit();
        let latency = window.mean_latency();
        let is_slow = latency.is_some_and(|latency| latency > self.timeout);
        let (next, reason) = if window.overloaded() > 0 {
            (limit * self.backoff, Reason::Refused)
        } else if is_slow {
            (limit * self.backoff, Reason::Queue)
        } else if window.max_in_flight() as f64 * 2.0 >= limit {
            (limit + 1.0, Reason::NoQueue)
        } else {
            (limit, Reason::Unused)
        };
        self.explanation = Explanation {
            latency,
            ..Explanation::new(reason)
        };
        target(next, SAMPLES)
    }

    /// Returns twice the timeout, so that a mean above the timeout is seen.
    fn cut(&self) -> Duration {
        self.timeout.saturating_mul(2)
    }

    fn explain(&self) -> Explanation {
        self.explanation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{overloaded, window};

    #[test]
    fn update_follows_the_closed_form() {
        let mut aimd = Aimd::default().initial_limit(10.0);
        assert_eq!(aimd.initial().limit, 10.0);
        assert_eq!(aimd.update(&window(10.0, 3, 5)).limit, 11.0);
        assert_eq!(aimd.explain().reason, Reason::NoQueue);
        assert_eq!(aimd.explain().latency, Some(Duration::from_millis(3)));
        assert_eq!(aimd.update(&window(10.0, 3, 4)).limit, 10.0);
        assert_eq!(aimd.explain().reason, Reason::Unused);
        assert_eq!(aimd.update(&overloaded(10.0)).limit, 9.0);
        assert_eq!(aimd.explain(), Explanation::new(Reason::Refused));
    }

    #[test]
    fn update_above_the_timeout_decreases() {
        let timeout = Duration::from_millis(100);
        let mut aimd = Aimd::default().timeout(timeout).backoff(0.5);
        assert_eq!(aimd.update(&window(10.0, 100, 10)).limit, 11.0);
        assert_eq!(aimd.update(&window(10.0, 101, 10)).limit, 5.0);
        assert_eq!(aimd.explain().reason, Reason::Queue);
    }
}
