//! The deadline hint: how a [`Timeout`](super::Timeout) and the throttle that it polls exchange
//! information past the futures between them. The timeout passes on how long the caller waits at
//! most, and the throttle reports which clock it runs on.
//!
//! 1. A thread-local carries the hint, because the context of a poll cannot. It is set only while a
//!    timeout polls its own future, to the time that is left.
//! 2. Every wait of this crate is polled through [`Waiting`](super::Waiting), which hides the hint
//!    of its poller. So only a future that is directly inside a timeout reads a hint. A waker, a
//!    closure or the factory of a pool runs inside such a poll too, but the waits that it creates
//!    are separate, and read nothing.
//! 3. A throttle that knows that the wait will not fit refuses at once. A throttle that has a clock
//!    reports it, so that the timeout runs on that clock.

use std::cell::Cell;
use std::time::Duration;

use super::Waiting;
use crate::sync::thread_local;
use crate::time::Clock;

thread_local! {
    /// The number of waits that are being polled, each inside the one before.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The time that is left, and the depth at which it can be read.
    static HINT: Cell<Option<(Duration, u32)>> = const { Cell::new(None) };
    static CLOCK: Cell<Option<Clock>> = const { Cell::new(None) };
}

// A wait may run in the destructor of another thread-local, when these are gone. It then has no hint.

#[inline(always)]
pub(super) fn depth() -> u32 {
    DEPTH.try_with(Cell::get).unwrap_or_default()
}

#[inline(always)]
fn set_depth(depth: u32) {
    let _ = DEPTH.try_with(|cell| cell.set(depth));
}

/// Replaces the hint.
fn replace_hint(hint: Option<(Duration, u32)>) -> Option<(Duration, u32)> {
    let replaced = HINT.try_with(|cell| cell.replace(hint));
    replaced.ok().flatten()
}

/// Replaces the clock that was reported.
fn replace_clock(clock: Option<Clock>) -> Option<Clock> {
    let replaced = CLOCK.try_with(|cell| cell.replace(clock));
    replaced.ok().flatten()
}

/// Ends the poll of a wait, also when it panics.
struct Deeper;

impl Drop for Deeper {
    #[inline(always)]
    fn drop(&mut self) {
        set_depth(depth().wrapping_sub(1));
    }
}

/// Restores the hint of an outer poll and the clock reported to it, also when the inner poll
/// panics.
struct Restore {
    hint: Option<(Duration, u32)>,
    clock: Option<Clock>,
}

impl Drop for Restore {
    fn drop(&mut self) {
        replace_hint(self.hint);
        replace_clock(self.clock.take());
    }
}

/// Polls with a hint, or with the hint of an outer timeout if that is smaller. Also returns the
/// clock of the throttle that the caller has to wait for, if the throttle has reported one.
pub(super) fn within<R>(remaining: Duration, poll: impl FnOnce() -> R) -> (R, Option<Clock>) {
    let outer = remaining_timeout();
    let remaining = outer.map_or(remaining, |outer| outer.min(remaining));
    let restore = Restore {
        hint: replace_hint(Some((remaining, depth()))),
        clock: replace_clock(None),
    };
    let polled = poll();
    let clock = replace_clock(None);
    drop(restore);
    if let Some(clock) = &clock {
        // The outer timeout runs on this clock as well.
        report_clock(clock);
    }
    (polled, clock)
}

/// Polls without a hint. It counts and keeps nothing, so it takes two instructions.
#[inline(always)]
pub(crate) fn without_hint<R>(poll: impl FnOnce() -> R) -> R {
    set_depth(depth().wrapping_add(1));
    let _deeper = Deeper;
    poll()
}

impl Waiting<()> {
    /// Returns how long the caller waits at most, if the future that is being polled has a
    /// [timeout](crate::wait::Waiting::timeout).
    ///
    /// A [`Throttle`](crate::Throttle) that knows how long a wait will be can refuse at once a wait
    /// that will not fit. The hint is the time that is left at the current poll. The future that
    /// the timeout was added to sees the hint, and so does everything that it polls directly. A
    /// wait that runs inside it, such as another `acquire()`, does not see it. A throttle that
    /// wraps another one passes the hint on with [`into_inner`](Self::into_inner).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::task::Poll;
    /// use std::time::Duration;
    /// use tollgate::AcquireError;
    /// use tollgate::wait::Waiting;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// // It knows that it takes a minute from its first poll on, and asks then.
    /// let a_minute = Duration::from_secs(60);
    /// let mut is_first = true;
    /// let wait = poll_fn(|_| match Waiting::remaining_timeout() {
    ///     Some(left) if std::mem::take(&mut is_first) && left < a_minute => {
    ///         Poll::Ready(Err(AcquireError::would_take(a_minute)))
    ///     }
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

/// The same as [`Waiting::remaining_timeout`].
pub(crate) fn remaining_timeout() -> Option<Duration> {
    let (remaining, read_at) = HINT.try_with(Cell::get).ok().flatten()?;
    (read_at == depth()).then_some(remaining)
}

/// Reports the clock of the throttle, if a timeout polls it.
pub(crate) fn report_clock(clock: &Clock) {
    if remaining_timeout().is_some() {
        replace_clock(Some(clock.clone()));
    }
}
