//! The deadline hint: what a [`Timeout`](super::Timeout) and the throttle that it polls tell each
//! other, past whatever is between them: how long the caller waits at most, and on what clock the
//! throttle lives.
//!
//! 1. A thread-local carries the hint, because the context of a poll cannot. It is set only while a
//!    timeout polls its own future for the first time.
//! 2. Every wait of this crate is polled through [`Waiting`](super::Waiting), which hides the hint of
//!    whoever polls it. So only a future that a timeout contains directly reads a hint. A waker, a
//!    closure or the factory of a pool runs inside such a poll too, but the waits that it makes are
//!    waits of their own, and read nothing.
//! 3. A throttle that knows that the wait will not fit refuses at once; one that has a clock reports
//!    it, so that the timeout runs on it.

use std::cell::Cell;
use std::time::Duration;

use super::Waiting;
use crate::time::Clock;

thread_local! {
    static REMAINING: Cell<Option<Duration>> = const { Cell::new(None) };
    static CLOCK: Cell<Option<Clock>> = const { Cell::new(None) };
}

/// Replaces the clock that was reported. There is none while the thread is being torn down.
fn replace_clock(clock: Option<Clock>) -> Option<Clock> {
    let replaced = CLOCK.try_with(|cell| cell.replace(clock));
    replaced.ok().flatten()
}

/// Restores the hint of an outer poll and what was reported to it, also when the inner one panics.
struct Restore(Option<Duration>, Option<Clock>);

impl Restore {
    /// Sets the hint until this is dropped.
    fn after(hint: Option<Duration>) -> Self {
        Self(REMAINING.replace(hint), replace_clock(None))
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        REMAINING.set(self.0);
        replace_clock(self.1.take());
    }
}

/// Polls with a hint, or with that of an outer timeout if it is smaller; and returns the clock of
/// the throttle that has to be waited for, if it has reported one.
pub(super) fn within<R>(remaining: Duration, poll: impl FnOnce() -> R) -> (R, Option<Clock>) {
    let outer = REMAINING.get();
    let remaining = outer.map_or(remaining, |outer| outer.min(remaining));
    let restore = Restore::after(Some(remaining));
    let polled = poll();
    let clock = replace_clock(None);
    drop(restore);
    if let Some(clock) = &clock {
        // The outer timeout runs on it as well.
        report_clock(clock);
    }
    (polled, clock)
}

/// Whether [`remaining_timeout`] returns something at this point.
#[inline(always)]
pub(super) fn is_set() -> bool {
    REMAINING.get().is_some()
}

/// Polls without a hint.
#[cold]
pub(crate) fn without_hint<R>(poll: impl FnOnce() -> R) -> R {
    let _restore = Restore::after(None);
    poll()
}

impl Waiting<()> {
    /// Returns how long the caller waits at most, if the future that is being polled has a
    /// [timeout](crate::Waiting::timeout).
    ///
    /// A [`Throttle`](crate::Throttle) that knows how long a wait will be can refuse at once what will
    /// not fit. The hint is there at the first poll only; later the timeout ends the wait by itself. It is
    /// there for the future that the timeout was added to, and for what that polls directly. A wait that
    /// runs inside of it, such as another `acquire()`, does not see it. A throttle that wraps another one
    /// passes the hint on by [`into_inner`](Self::into_inner).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::task::Poll;
    /// use std::time::Duration;
    /// use tollgate::{AcquireError, Waiting};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// // It knows that it takes a minute.
    /// let a_minute = Duration::from_secs(60);
    /// let wait = poll_fn(|_| match Waiting::remaining_timeout() {
    ///     Some(left) if left < a_minute => Poll::Ready(Err(AcquireError::would_take(a_minute))),
    ///     _ => Poll::<Result<(), _>>::Pending,
    /// });
    /// let refused = Waiting::new(wait).timeout(Duration::from_secs(2)).await.unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(a_minute));
    /// # }
    /// ```
    pub fn remaining_timeout() -> Option<Duration> {
        remaining_timeout()
    }
}

/// As [`Waiting::remaining_timeout`].
pub(crate) fn remaining_timeout() -> Option<Duration> {
    REMAINING.get()
}

/// Reports the clock that the caller waits by, if a timeout asks for it.
pub(crate) fn report_clock(clock: &Clock) {
    if is_set() {
        replace_clock(Some(clock.clone()));
    }
}
