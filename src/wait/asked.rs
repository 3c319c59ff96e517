//! What a [`Timeout`](super::Timeout) and the throttle that it polls tell each other, past whatever is between
//! them: how long it would wait, and on what clock the throttle lives.
//!
//! It goes by a thread-local that is set only around the poll, as the context of a poll cannot carry it.
//! A throttle that knows that the wait will not fit refuses at once; one that has a clock says which,
//! so that the timeout runs on it.

use std::cell::Cell;
use std::time::Duration;

use crate::time::Clock;

thread_local! {
    static BUDGET: Cell<Option<Duration>> = const { Cell::new(None) };
    static CLOCK: Cell<Option<Clock>> = const { Cell::new(None) };
}

/// Restores the budget of whoever polls this poller, also when the poll panics.
struct Restore(Option<Duration>);

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = BUDGET.try_with(|budget| budget.set(self.0));
    }
}

/// Polls within a budget, or within that of an outer timeout if it is smaller.
pub(super) fn within<R>(budget: Duration, poll: impl FnOnce() -> R) -> R {
    let outer = BUDGET.try_with(Cell::get).ok().flatten();
    let _restore = Restore(outer);
    let budget = outer.map_or(budget, |outer| outer.min(budget));
    let _ = BUDGET.try_with(|cell| cell.set(Some(budget)));
    poll()
}

/// The clock of the throttle that was polled [within](within) a budget just now. An outer timeout is
/// told as well.
pub(super) fn told_clock() -> Option<Clock> {
    let told = CLOCK.try_with(Cell::take).ok().flatten();
    if let Some(clock) = told.as_ref().filter(|_| budget().is_some()) {
        let _ = CLOCK.try_with(|cell| cell.set(Some(clock.clone())));
    }
    told
}

/// How long whoever polls would wait, if it says so.
pub(crate) fn budget() -> Option<Duration> {
    BUDGET.try_with(Cell::get).ok().flatten()
}

/// Tells whoever polls with a budget what clock it waits by.
pub(crate) fn tell_clock(clock: &Clock) {
    if budget().is_some() {
        let _ = CLOCK.try_with(|cell| cell.set(Some(clock.clone())));
    }
}
