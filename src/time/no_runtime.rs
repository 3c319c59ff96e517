//! Replaces tokio's time and timer where the crate is built without tokio: no code runs inside a
//! runtime.

use std::task::Waker;

use super::clock::{Clock, TimerEntry};
pub(crate) use super::sleep::ClockSleep as Sleep;
pub(super) use super::system::now;
use super::tick::Tick;
use super::timer::Key;

/// Has no values, because there are no runtime tasks.
pub(super) enum Task {}

/// Remembers nothing, because there are no runtimes.
#[derive(Default)]
pub(crate) struct LastRuntime {}

impl LastRuntime {
    pub(crate) fn enter_runtime(&mut self) -> bool {
        false
    }
}

pub(super) fn is_default() -> bool {
    false
}

pub(super) fn start_timer(due: Tick, waker: Waker) -> TimerEntry {
    Clock::system().start_timer(Key::new(due), waker)
}
