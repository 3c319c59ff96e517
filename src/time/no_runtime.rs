//! In place of tokio's time, where the crate is built without tokio.

use std::task::Waker;

use super::clock::{self, Clock};
use super::tick::Tick;

/// There is none.
#[derive(Clone, Copy)]
pub(super) enum Time {}

/// There is none.
pub(super) enum Entry {}

/// There is none.
#[derive(Default)]
pub(crate) struct LastRuntime {}

impl LastRuntime {
    pub(crate) fn enter_runtime(&mut self) -> bool {
        false
    }
}

/// Returns the clock of a limiter without a chosen one.
pub(super) fn unchosen() -> Clock {
    Clock::system()
}

impl Time {
    pub(super) fn now(self) -> Tick {
        match self {}
    }

    pub(super) fn start_timer(self, _due: Tick, _waker: Waker) -> clock::TimerEntry {
        match self {}
    }
}

impl Entry {
    pub(super) fn cancel(self) {
        match self {}
    }
}
