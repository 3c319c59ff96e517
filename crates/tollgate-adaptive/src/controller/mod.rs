//! [`Controller`]: a pure rule that turns the samples of a window into the next limit.
//!
//! A controller reads no clock, takes no lock and knows no task. It sees each window once, and
//! returns the next limit and the size of the next window. The limit in a window is the one that
//! was really in force: a target out of the range of the limiter comes back clamped, so a
//! controller that starts from [`SampleWindow::limit`] never winds up.

mod aimd;
mod explanation;
mod gradient;
#[cfg(test)]
mod tests;
mod window;

use std::time::Duration;

pub use self::aimd::Aimd;
pub use self::explanation::{Explanation, Reason};
pub use self::gradient::Gradient;
pub use self::window::SampleWindow;

/// A rule that finds a concurrency limit.
///
/// # Examples
///
/// A custom controller that adds one to the limit as long as nothing is overloaded:
///
/// ```
/// use std::time::Duration;
/// use tollgate_adaptive::{Controller, SampleWindow, Target};
///
/// struct Careful;
///
/// impl Controller for Careful {
///     fn initial(&self) -> Target {
///         Target { limit: 10.0, samples: 100 }
///     }
///
///     fn update(&mut self, window: &SampleWindow) -> Target {
///         let limit = match window.overloaded() {
///             0 => window.limit() + 1.0,
///             _ => window.limit() / 2.0,
///         };
///         Target { limit, samples: 100 }
///     }
/// }
///
/// let mut window = SampleWindow::new(10.0);
/// window.record(Duration::from_millis(3), 7);
/// assert_eq!(Careful.update(&window).limit, 11.0);
/// window.record_overloaded(8);
/// assert_eq!(Careful.update(&window).limit, 5.0);
/// ```
pub trait Controller: Send {
    /// Returns the initial limit, and the number of samples of the first window.
    fn initial(&self) -> Target;

    /// Returns the limit for the next window. A limit that is not a finite number above 0 changes
    /// nothing and is counted; any other limit is clamped to the range of the limiter.
    fn update(&mut self, window: &SampleWindow) -> Target;

    /// Returns the age at which a call of the next window counts with this latency, whether it has ended or not.
    /// By default it is ten seconds. With a shorter one a window ends sooner, and shows less of the
    /// calls that take long; what it shows does not depend on the limit.
    fn cut(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Decides whether an incomplete window continues or ends. The thread that adds
    /// every fourth sample calls this, without a lock, so it may use the limiter. The window
    /// continues by default, and also if this panics.
    fn progress(&mut self, window: &SampleWindow) -> Progress {
        let _ = window;
        Progress::Continue
    }

    /// Explains the last [`update`](Self::update), for people who watch the limit; the limiter asks after
    /// each. Unknown by default.
    fn explain(&self) -> Explanation {
        Explanation::default()
    }
}

/// The decision of [`Controller::progress`] about a window.
///
/// # Examples
///
/// A controller that does not wait for a whole window when the backend refuses:
///
/// ```
/// use tollgate_adaptive::{AdaptiveSemaphore, Controller, Progress, SampleWindow, Target};
///
/// struct Quick;
///
/// impl Controller for Quick {
///     fn initial(&self) -> Target {
///         Target { limit: 10.0, samples: 100 }
///     }
///
///     fn update(&mut self, window: &SampleWindow) -> Target {
///         let factor = if window.overloaded() > 0 { 0.5 } else { 1.1 };
///         Target { limit: factor * window.limit(), samples: 100 }
///     }
///
///     fn progress(&mut self, window: &SampleWindow) -> Progress {
///         match window.overloaded() {
///             0 => Progress::Continue,
///             _ => Progress::End,
///         }
///     }
/// }
///
/// let backend = AdaptiveSemaphore::new(Quick);
/// for _ in 0..4 {
///     backend.try_acquire()?.overloaded();
/// }
/// assert_eq!(backend.snapshot().permits.limit, 5);
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The window continues until it has all its samples.
    Continue,
    /// The window ends now.
    End,
}

/// The limit and the next window that a [`Controller`] asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The concurrency limit. The limiter admits this number of callers, rounded to the nearest
    /// whole number.
    pub limit: f64,
    /// The number of samples of the next window, at least 1: 0 counts as 1.
    pub samples: u32,
}

/// Returns a target whose window uses each permit about twice, and has at least the number of
/// samples that a mean needs.
fn target(limit: f64, least: u32) -> Target {
    // A float is converted with saturation.
    let samples = (2.0 * limit) as u32;
    Target {
        limit,
        samples: samples.max(least),
    }
}

/// Returns `value`, a setting of a controller.
///
/// # Panics
///
/// Panics if `value` is not a finite number above 0.
#[track_caller]
fn positive(name: &str, value: f64) -> f64 {
    assert!(
        value.is_finite() && value > 0.0,
        "the {name} must be a finite number above 0, but it is {value}"
    );
    value
}
