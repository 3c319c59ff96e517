//! What a [`Timeout`](super::Timeout) and the throttle that it polls tell each other, past whatever
//! is between them: how long it would wait, and on what clock the throttle lives.
//!
//! It goes by a thread-local that is set only around the poll, as the context of a poll cannot
//! carry it. A throttle that knows that the wait will not fit refuses at once; one that has a clock
//! says which, so that the timeout runs on it.

use std::cell::Cell;
use std::time::Duration;

use crate::time::Clock;

thread_local! {
    static BUDGET: Cell<Option<Duration>> = const { Cell::new(None) };
    static CLOCK: Cell<Option<Clock>> = const { Cell::new(None) };
}

/// Restores the budget of whoever polls this poller, and takes what was told, also when the poll
/// panics.
struct Restore(Option<Duration>);

impl Restore {
    fn told(&self) -> Option<Clock> {
        let told = CLOCK.try_with(Cell::take).ok().flatten();
        if self.0.is_some() {
            // An outer timeout is told as well.
            let _ = CLOCK.try_with(|cell| cell.set(told.clone()));
        }
        told
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = BUDGET.try_with(|budget| budget.set(self.0));
        if self.0.is_none() {
            let _ = CLOCK.try_with(Cell::take);
        }
    }
}

/// Polls within a budget, or within that of an outer timeout if it is smaller, and says what clock
/// the throttle told that had to wait.
pub(super) fn within<R>(budget: Duration, poll: impl FnOnce() -> R) -> (R, Option<Clock>) {
    let outer = BUDGET.try_with(Cell::get).ok().flatten();
    let restore = Restore(outer);
    let budget = outer.map_or(budget, |outer| outer.min(budget));
    let _ = BUDGET.try_with(|cell| cell.set(Some(budget)));
    let polled = poll();
    let told = restore.told();
    (polled, told)
}

/// Polls as if nobody had a budget: what has a place in line already is not waited for now.
pub(crate) fn without_budget<R>(poll: impl FnOnce() -> R) -> R {
    let outer = BUDGET.try_with(Cell::take).ok().flatten();
    let _restore = Restore(outer);
    poll()
}

/// How long whoever polls just now would wait at most, if it has a [timeout](crate::Timeout): for a
/// [`Throttle`](crate::Throttle) of one's own that knows how long the wait will be, and so can refuse
/// at once what will not fit.
///
/// It is told at the first poll only; later the timeout runs, and ends the wait by itself.
///
/// # Examples
///
/// ```
/// use std::future::poll_fn;
/// use std::task::Poll;
/// use std::time::Duration;
/// use tollgate::throttle::budget;
/// use tollgate::{AcquireError, Timeout};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// // It knows that it takes a minute.
/// let a_minute = Duration::from_secs(60);
/// let wait = poll_fn(|_| match budget() {
///     Some(budget) if budget < a_minute => Poll::Ready(Err(AcquireError::would_take(a_minute))),
///     _ => Poll::<Result<(), _>>::Pending,
/// });
/// let refused = Timeout::new(wait, Duration::from_secs(2)).await.unwrap_err();
/// assert_eq!(refused.retry_after(), Some(a_minute));
/// # }
/// ```
pub fn budget() -> Option<Duration> {
    BUDGET.try_with(Cell::get).ok().flatten()
}

/// Tells whoever polls with a budget what clock it waits by.
pub(crate) fn tell_clock(clock: &Clock) {
    if budget().is_some() {
        let _ = CLOCK.try_with(|cell| cell.set(Some(clock.clone())));
    }
}
