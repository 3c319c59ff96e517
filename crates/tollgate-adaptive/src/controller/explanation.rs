//! [`Explanation`]: what a controller knows about its last decision.

use std::fmt;
use std::time::Duration;

/// The reason of the last decision of a controller, and the latencies that it compared; see
/// [`Controller::explain`](super::Controller::explain).
///
/// # Examples
///
/// A limit that shrinks because calls queue:
///
/// ```
/// use std::time::Duration;
/// use tollgate_adaptive::{Controller, Gradient, Reason, SampleWindow};
///
/// let mut controller = Gradient::default();
/// let mut update = |limit: f64, milliseconds| {
///     let mut window = SampleWindow::new(limit);
///     for _ in 0..200 {
///         window.record(Duration::from_millis(milliseconds), limit as usize);
///     }
///     controller.update(&window);
///     controller.explain()
/// };
/// update(20.0, 10); // the first few calls
/// assert_eq!(update(20.0, 10).reason, Reason::Probe);
/// assert_eq!(update(10.0, 10).reason, Reason::Measured);
/// assert_eq!(update(20.0, 20).reason, Reason::Queue);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The reason of the limit.
    pub reason: Reason,
    /// The estimate of the latency without a queue; `None` before it is known, and for a controller that
    /// does not estimate it.
    pub baseline: Option<Duration>,
    /// The latency of the last window, as the controller compares it with the baseline: with
    /// [`Gradient`](super::Gradient) the mean, cut at the controller's [cut](super::Controller::cut). `None` if no call of the window was answered.
    pub latency: Option<Duration>,
}

impl Explanation {
    /// Creates an explanation without latencies, which are fields.
    pub fn new(reason: Reason) -> Self {
        Self {
            reason,
            ..Self::default()
        }
    }
}

/// Why a limit is what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No window has ended yet, or the controller does not explain its decisions.
    #[default]
    Unknown,
    /// Fewer calls queue than the controller accepts, so the limit grows. With [`Gradient`](crate::Gradient) the latency
    /// may be somewhat above the baseline.
    NoQueue,
    /// More calls queue than the controller accepts, so the limit shrinks.
    Queue,
    /// Less than the limit was in use, so the latency shows nothing about a higher one.
    Unused,
    /// The limit is low for a window or some, to measure the baseline. This is no overload.
    Probe,
    /// The baseline has been measured, and the limit follows it.
    Measured,
    /// Calls suddenly take several times as long, and the limit is low to find out whether they queue.
    Jump,
    /// Calls were refused, or failed because of overload.
    Refused,
}

impl Reason {
    /// Returns the reason in snake case, for metrics and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::NoQueue => "no_queue",
            Self::Queue => "queue",
            Self::Unused => "unused",
            Self::Probe => "probe",
            Self::Measured => "measured",
            Self::Jump => "jump",
            Self::Refused => "refused",
        }
    }

    /// Returns whether the limit is low to measure something, and not because of an overload: during a
    /// [`Probe`](Self::Probe), and after a [`Jump`](Self::Jump).
    pub fn is_probe(self) -> bool {
        matches!(self, Self::Probe | Self::Jump)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
