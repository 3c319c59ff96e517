//! Replaces tokio's time and timer where the crate is built without tokio: all code is outside of
//! runtimes, on the time of the machine.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use super::clock::TimerEntry;
use super::entries::Key;
pub(super) use super::system::now;
use super::tick::Tick;
use super::timer::TIMER;

/// Has no values, because there are no runtimes, and so has a [`Home`].
pub(crate) type Id = Infallible;

pub(crate) struct Home {
    pub(crate) id: Id,
    pub(super) ended: OnceLock<Tick>,
}

/// Has no values, because there are no homes.
pub(super) type Entry = Infallible;

pub(crate) fn current_home() -> Option<Arc<Home>> {
    None
}

pub(super) fn entered_home() -> Option<Arc<Home>> {
    None
}

pub(crate) fn current() -> Option<Id> {
    None
}

pub(crate) fn within<R>(_runtime: Option<Id>, _run: impl FnOnce() -> R) -> Option<R> {
    None
}

pub(super) fn now_in(_home: Option<&Arc<Home>>) -> Tick {
    now()
}

pub(super) fn start_timer(_home: Option<Arc<Home>>, due: Tick, waker: Waker) -> TimerEntry {
    TimerEntry::System(TIMER.start(Key::new(due), waker))
}
