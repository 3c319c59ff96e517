//! In place of tokio's time, where the crate is built without tokio.

use std::task::Waker;

use super::clock::{self, Clock};
use super::tick::Tick;

/// There is none.
#[derive(Clone, Copy)]
pub(super) enum Time {}

/// There is none.
pub(super) enum Alarm {}

/// There is none.
#[derive(Default)]
pub(crate) struct SeenRuntime;

impl SeenRuntime {
    pub(crate) fn changes(&mut self) -> bool {
        false
    }
}

/// The clock of a limiter for which none was chosen.
pub(super) fn unchosen() -> Clock {
    Clock::system()
}

impl Time {
    pub(super) fn now(self) -> Tick {
        match self {}
    }

    pub(super) fn set_alarm(self, _due: Tick, _waker: Waker) -> clock::Alarm {
        match self {}
    }
}

impl Alarm {
    pub(super) fn unset(self) {
        match self {}
    }
}
