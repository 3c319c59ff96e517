//! Replaces tokio's time and timer where the crate is built without tokio: no code runs inside a
//! runtime.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::Waker;

use super::clock::TimerEntry;
use super::entries::Key;
pub(super) use super::system::now;
use super::tick::Tick;
use super::timer::TIMER;

/// Has no values, because nothing is a task of a runtime.
pub(super) type Task = Infallible;

/// Has no values, because all code is outside of runtimes, on the time of the machine.
pub(crate) enum Home {}

impl Home {
    pub(super) fn has_ended(&self) -> bool {
        match *self {}
    }

    pub(crate) fn within<R>(&self, _run: impl FnOnce(Option<&Infallible>) -> R) -> R {
        match *self {}
    }

    pub(super) fn now(&self) -> Tick {
        match *self {}
    }

    pub(super) fn start_timer(self: &Arc<Self>, _due: Tick, _waker: Waker) -> TimerEntry {
        match **self {}
    }
}

/// Has no values, because there are no runtimes.
pub(crate) struct ByRuntime<C, T>(Infallible, PhantomData<(C, T)>);

impl<C, T> ByRuntime<C, T> {
    pub(super) fn new(_common: C) -> Option<Self> {
        None
    }

    pub(crate) fn here(&self, _new: impl FnOnce(Arc<Home>, C) -> Arc<T>) -> Arc<T> {
        match self.0 {}
    }

    pub(crate) fn outside(&self, _new: impl FnOnce(Arc<Home>, C) -> Arc<T>) -> Arc<T> {
        match self.0 {}
    }

    pub(crate) fn common(&self) -> C {
        match self.0 {}
    }

    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        match self.0 {}
    }

    pub(crate) fn change(&self, _change: impl FnOnce(&mut C)) -> Vec<Arc<T>> {
        match self.0 {}
    }
}

/// Returns nothing, because there are no runtimes.
pub(crate) fn running(_number: u64) -> Option<Arc<Home>> {
    None
}

/// Returns no number, because there are no runtimes.
pub(super) fn number() -> u64 {
    0
}

/// Returns the current runtime.
pub(super) fn current() -> Option<Infallible> {
    None
}

pub(super) fn start_timer(due: Tick, waker: Waker) -> TimerEntry {
    TimerEntry::System(TIMER.start(Key::new(due), waker))
}
