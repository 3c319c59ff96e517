//! The limit in front of the server, found by a controller or fixed. It samples as
//! `AdaptiveSemaphore` does.

use std::time::Duration;

use tollgate::adaptive::{Controller, SampleWindow, Target};

use crate::jobs::Nanos;

/// The range of limits, as `AdaptiveSemaphore` has it by default.
const MIN: f64 = 1.0;
const MAX: f64 = 1000.0;

/// A call in a window, and how many were in flight when it began, itself included.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    window: u32,
    in_flight: usize,
}

pub(crate) enum Limiter {
    Fixed(usize),
    Adaptive(Box<Adaptive>),
}

pub(crate) struct Adaptive {
    controller: Box<dyn Controller>,
    window: SampleWindow,
    number: u32,
    /// How many samples end the window, and how many more calls may begin in it.
    samples: u32,
    places: u32,
}

impl Limiter {
    pub(crate) fn adaptive(controller: Box<dyn Controller>) -> Self {
        let target = controller.initial();
        let mut adaptive = Adaptive {
            controller,
            window: SampleWindow::new(target.limit),
            number: 0,
            samples: 0,
            places: 0,
        };
        adaptive.open(target);
        Self::Adaptive(Box::new(adaptive))
    }

    pub(crate) fn limit(&self) -> usize {
        match self {
            Self::Fixed(limit) => *limit,
            Self::Adaptive(adaptive) => adaptive.window.limit().round() as usize,
        }
    }

    /// Begins a call. It is measured if the window still has a place.
    pub(crate) fn begin(&mut self, in_flight: usize) -> Option<Place> {
        let Self::Adaptive(adaptive) = self else {
            return None;
        };
        adaptive.places = adaptive.places.checked_sub(1)?;
        Some(Place {
            window: adaptive.number,
            in_flight,
        })
    }

    /// Ends a measured call. Returns whether it was the last of its window.
    pub(crate) fn end(&mut self, place: Place, latency: Nanos) -> bool {
        match self {
            Self::Adaptive(adaptive) if adaptive.number == place.window => {
                adaptive.end(place, Duration::from_nanos(latency))
            }
            _ => false,
        }
    }
}

impl Adaptive {
    fn end(&mut self, place: Place, latency: Duration) -> bool {
        self.window.record(latency, place.in_flight);
        let ends = self.window.samples() >= self.samples;
        if ends {
            let target = self.controller.update(&self.window);
            self.open(target);
        }
        ends
    }

    fn open(&mut self, target: Target) {
        assert!(target.limit.is_finite() && target.limit > 0.0, "{target:?}");
        self.window = SampleWindow::new(target.limit.clamp(MIN, MAX));
        self.number += 1;
        self.samples = target.samples.max(1);
        self.places = self.samples.saturating_add(self.samples / 8);
    }
}
