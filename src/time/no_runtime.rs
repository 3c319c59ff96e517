//! In place of tokio's time and timer, where the crate is built without tokio: no code runs inside a runtime.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::clock::{Clock, TimerEntry};
pub(super) use super::system::now;
use super::tick::Tick;

/// There is none.
pub(super) enum Task {}

/// There is none.
pub(super) enum Sleep {}

/// There is none.
#[derive(Default)]
pub(crate) struct LastRuntime;

impl LastRuntime {
    pub(crate) fn enter_runtime(&mut self) -> bool {
        false
    }
}

pub(super) fn is_default() -> bool {
    false
}

pub(super) fn start_timer(due: Tick, waker: Waker) -> TimerEntry {
    Clock::system().start_timer(due, waker)
}

impl Sleep {
    pub(super) fn new(_duration: Duration) -> Option<Self> {
        None
    }

    pub(super) fn left_elsewhere(&self, _blocking: bool) -> Option<Duration> {
        match *self {}
    }

    pub(super) fn poll_sleep(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        match *self {}
    }
}
