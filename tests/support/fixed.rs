//! A controller for tests that need an adaptive limit, and no change of it.

use tollgate_adaptive::{Controller, SampleWindow, Target};

/// A controller whose limit is constant, in windows of one call.
pub(crate) struct Fixed(pub(crate) f64);

impl Controller for Fixed {
    fn initial(&self) -> Target {
        let (limit, samples) = (self.0, 1);
        Target { limit, samples }
    }

    fn update(&mut self, _: &SampleWindow) -> Target {
        self.initial()
    }
}
