//! The reports of a controller's decisions.

use std::panic::panic_any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::Clock;
use tollgate_adaptive::{
    AdaptiveSemaphore, Controller, Explanation, Progress, Reason, SampleWindow, Target,
};
use tollgate_observe::{Decision, ObservedController, Observer, Place};

use super::{Log, SECOND};

/// Ends each window after four samples, and measures at a limit of 5.
#[derive(Default)]
struct Probing(Explanation);

impl Controller for Probing {
    fn initial(&self) -> Target {
        Target {
            limit: 10.0,
            samples: 5,
        }
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let mut explanation = Explanation::new(Reason::Probe);
        explanation.baseline = Some(SECOND);
        explanation.latency = window.mean_latency();
        self.0 = explanation;
        Target {
            limit: 5.0,
            samples: 5,
        }
    }

    fn cut(&self) -> Duration {
        3 * SECOND
    }

    fn progress(&mut self, _: &SampleWindow) -> Progress {
        Progress::End
    }

    fn explain(&self) -> Explanation {
        self.0
    }
}

/// Makes one window of four calls that take two seconds each, of which one is overloaded.
pub(super) fn decide(observer: impl Observer + Send + 'static) -> AdaptiveSemaphore {
    let clock = Clock::manual();
    let controller = ObservedController::new(Probing::default(), observer);
    let backend = AdaptiveSemaphore::new(controller).clock(&clock);
    let [one, two, three, four] = [(); 4].map(|()| backend.try_acquire().unwrap());
    clock.advance(2 * SECOND);
    four.overloaded();
    drop((one, two, three));
    backend
}

/// Keeps all decisions, and panics after that.
#[derive(Clone, Default)]
struct Panics(Arc<Mutex<Vec<Decision>>>);

impl Observer for Panics {
    type Held = ();

    fn admitted(&self, _: Place, _: Option<Duration>) {}

    fn decided(&self, decision: &Decision) {
        self.0.lock().unwrap().push(*decision);
        panic_any("an observer");
    }
}

#[test]
fn decided_is_reported_once_for_each_window_and_a_panic_changes_nothing() {
    let (one, two) = (Panics::default(), Panics::default());
    let backend = decide((one.clone(), Arc::new(Log::default()), two.clone()));
    let snapshot = backend.snapshot();
    assert_eq!((snapshot.permits.limit, snapshot.rejected_targets), (5, 0));
    let decisions = one.0.lock().unwrap().clone();
    assert_eq!(decisions, *two.0.lock().unwrap());
    let [decision] = decisions[..] else {
        panic!("{decisions:?}");
    };
    assert_eq!((decision.before, decision.limit), (10.0, 5.0));
    assert_eq!((decision.samples, decision.overloaded), (4, 1));
    assert_eq!(decision.explanation, snapshot.explanation);
    assert_eq!(decision.explanation.latency, Some(2 * SECOND));
}

#[test]
fn cut_of_an_observed_controller_is_that_of_the_controller() {
    let cut = |backend: AdaptiveSemaphore| backend.snapshot().window.cut();
    let alone = cut(AdaptiveSemaphore::new(Probing::default()));
    let controller = ObservedController::new(Probing::default(), Log::default());
    assert_eq!(cut(AdaptiveSemaphore::new(controller)), alone);
    assert_eq!(cut(decide(Log::default())), alone);
    assert_eq!(alone, 3 * SECOND);
}
