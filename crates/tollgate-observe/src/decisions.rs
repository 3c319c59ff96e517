//! [`ObservedController`]: a controller whose decisions are reported.

use std::time::Duration;

use tollgate_adaptive::{Controller, Explanation, Progress, SampleWindow, Target};

use super::{Observer, contain_panic};

/// A [`Controller`] of an [`AdaptiveSemaphore`](tollgate_adaptive::AdaptiveSemaphore) that reports each of its
/// decisions to an [`Observer`], for example to `Metrics` and `Traced`.
///
/// The decisions are those of the controller that it wraps. An observer that panics changes none.
///
/// # Cost
///
/// There is one report for each window; a call costs nothing more. Windows of the default controller have 24 calls or
/// more, or 12 if they end early.
///
/// # Examples
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// use tollgate::AcquireError;
/// use tollgate_adaptive::{AdaptiveSemaphore, Aimd, Reason};
/// use tollgate_observe::{Decision, ObservedController, Observer, Place};
///
/// #[derive(Clone, Default)]
/// struct Reasons(Arc<Mutex<Vec<Reason>>>);
///
/// impl Observer for Reasons {
///     type Held = ();
///
///     fn admitted(&self, _: Place, _: Option<Duration>) {}
///
///     fn decided(&self, decision: &Decision) {
///         self.0.lock().unwrap().push(decision.explanation.reason);
///     }
/// }
///
/// let reasons = Reasons::default();
/// let controller = ObservedController::new(Aimd::default(), reasons.clone());
/// let backend = AdaptiveSemaphore::new(controller);
/// for _ in 0..64 {
///     backend.try_acquire()?.overloaded();
/// }
/// assert_eq!(*reasons.0.lock().unwrap(), [Reason::Refused]);
/// # Ok::<_, AcquireError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ObservedController<C, O> {
    controller: C,
    observer: O,
}

impl<C: Controller, O: Observer> ObservedController<C, O> {
    /// Wraps a controller.
    pub fn new(controller: C, observer: O) -> Self {
        Self {
            controller,
            observer,
        }
    }
}

/// A decision of an [`ObservedController`], at the end of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// The limit that was in force during the window.
    pub before: f64,
    /// The limit that the controller asks for, which the semaphore rounds, and clamps to its range.
    pub limit: f64,
    /// The number of calls of the window, with the overloaded ones.
    pub samples: u32,
    /// The number of calls of the window that were refused, or failed because of overload.
    pub overloaded: u32,
    /// The reason, the baseline, and the latency of the window.
    pub explanation: Explanation,
}

impl<C: Controller, O: Observer + Send> Controller for ObservedController<C, O> {
    fn initial(&self) -> Target {
        self.controller.initial()
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let target = self.controller.update(window);
        let decision = Decision {
            before: window.limit(),
            limit: target.limit,
            samples: window.samples(),
            overloaded: window.overloaded(),
            explanation: self.controller.explain(),
        };
        contain_panic(|| self.observer.decided(&decision));
        target
    }

    fn cut(&self) -> Duration {
        self.controller.cut()
    }

    fn progress(&mut self, window: &SampleWindow) -> Progress {
        self.controller.progress(window)
    }

    fn explain(&self) -> Explanation {
        self.controller.explain()
    }
}
