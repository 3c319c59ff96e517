//! Hints: what a poller and the throttle that it polls exchange past the futures between them, because the context
//! of a poll cannot carry it.
//!
//! A [`Timeout`](super::Timeout) passes on how long the caller waits at most, and the throttle reports the clock that
//! it runs on. A fair queue passes on the tick as of which its entrant has arrived, and each rate limiter behind its
//! throttle reports the tick of its charge.
//!
//! 1. Thread-locals carry the hints. They are set only while a timeout, or a fair queue, polls its own future.
//! 2. Every wait of this crate is polled through [`Waiting`](super::Waiting), which hides the hints
//!    of its poller. So only a future that is directly inside a timeout or an entrant reads a hint. A waker, a
//!    closure or the factory of a pool runs inside such a poll too, but the waits that it creates
//!    are separate, and read nothing.
//! 3. A throttle that knows that the wait will not fit refuses at once. A throttle that has a clock
//!    reports it, so that the timeout runs on that clock.
//! 4. An entrant goes from rate to rate, and its tick goes with it: it enters the next one, in the same poll, as of
//!    the tick of the charge before. An entrant that has waited for anything else enters the next rate as of now.
//!    A tick counts only on its own clock. Code that runs inside the poll of an entrant and drives another queue,
//!    such as a wake or the drop of a permit, does not read the tick: that queue enters its rates for its own waiters.
//! 5. Entrants are charged only where their charge is reported: not by [`enter_now`](crate::Throttle::enter_now) of a
//!    composition, and not without the lock. Otherwise the next entrant would be as of a tick before that charge.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Duration;

use super::Waiting;
use crate::sync::thread_local;
use crate::time::{Clock, ClockId, Tick};

thread_local! {
    /// The number of waits that are being polled, each inside the one before, above [`OUTSIDE`]. The upper half counts
    /// the entrants among them, and the lower half starts with 0 at each.
    static DEPTH: Cell<u64> = const { Cell::new(OUTSIDE) };
    /// The time that is left, and the depth at which it can be read.
    static HINT: Cell<Option<(Duration, u64)>> = const { Cell::new(None) };
    static CLOCK: Cell<Option<Clock>> = const { Cell::new(None) };
    /// The tick as of which the entrant has arrived where it is now.
    static ARRIVAL: Cell<Option<Arrival>> = const { Cell::new(None) };
    /// Whether the queue asks for the clock of the rates, and the answer.
    static ASKS: Cell<bool> = const { Cell::new(false) };
    static RATES: Cell<Option<Clock>> = const { Cell::new(None) };
}

/// The depth outside of all waits. The lower half is not 0: only the wait of an entrant has that, so a ready path
/// compares with a constant.
const OUTSIDE: u64 = 1;

/// A tick, and the clock that it is of.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) clock: ClockId,
    pub(crate) tick: Tick,
}

// A wait may run in the destructor of another thread-local, when these are gone. It then has no hint.

#[inline(always)]
fn depth() -> u64 {
    DEPTH.try_with(Cell::get).unwrap_or(OUTSIDE)
}

#[inline(always)]
fn set_depth(depth: u64) {
    let _ = DEPTH.try_with(|cell| cell.set(depth));
}

/// Replaces the hint.
fn replace_hint(hint: Option<(Duration, u64)>) -> Option<(Duration, u64)> {
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
    hint: Option<(Duration, u64)>,
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

    /// Reports the clock on which the throttle of the future that is being polled waits, so that the
    /// [timeout](crate::wait::Waiting::timeout) of the caller, if there is one, runs on that clock.
    ///
    /// A throttle with a clock calls this in each poll that returns [`Pending`](std::task::Poll::Pending). The limits of
    /// this crate do it themselves: a throttle that contains a rate limiter or a gate need not.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    /// use std::time::Duration;
    /// use tollgate::wait::Waiting;
    /// use tollgate::{AcquireError, Clock};
    ///
    /// let manual = Clock::manual();
    /// let clock = Clock::from(&manual);
    /// let wait = poll_fn(|_| {
    ///     Waiting::report_clock(&clock);
    ///     Poll::<Result<(), AcquireError>>::Pending
    /// });
    /// let mut wait = pin!(Waiting::new(wait).timeout(Duration::from_secs(2)));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(wait.as_mut().poll(&mut context).is_pending());
    /// manual.advance(Duration::from_secs(2));
    /// assert!(wait.poll(&mut context).is_ready());
    /// ```
    pub fn report_clock(clock: &Clock) {
        report_clock(clock);
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

/// The depth and the arrival of an outer poll. Dropping it restores them, also when the inner poll panics.
struct RestoreOuter {
    /// What was added to the depth. It is subtracted again, because the threads of a loom model share the depth.
    added: u64,
    arrival: Option<Arrival>,
    asks: bool,
}

impl RestoreOuter {
    /// Sets the hints of an entrant whose wait is polled next.
    #[inline(always)]
    fn new(arrival: Option<Arrival>, asks: bool) -> Self {
        // The next poll is one deeper: the lower half is then 0.
        let added = u64::from(!(depth() as u32));
        set_depth(depth().wrapping_add(added));
        let arrival = ARRIVAL.try_with(|cell| cell.replace(arrival));
        let asks = ASKS.try_with(|cell| cell.replace(asks));
        Self {
            added,
            arrival: arrival.ok().flatten(),
            asks: asks.unwrap_or_default(),
        }
    }
}

impl Drop for RestoreOuter {
    #[inline(always)]
    fn drop(&mut self) {
        set_depth(depth().wrapping_sub(self.added));
        let _ = ARRIVAL.try_with(|cell| cell.set(self.arrival));
        let _ = ASKS.try_with(|cell| cell.set(self.asks));
    }
}

/// Polls the wait of an entrant, which has arrived as of a tick or now. Also returns the tick of its last charge, or
/// that as of which it waits for one; if nothing was reported, it is the same as before. Sets the clock of the rates
/// if it is not known yet.
#[inline(always)]
pub(crate) fn poll_entrant<R>(
    arrived: Option<Arrival>,
    rates: &OnceLock<Clock>,
    poll: impl FnOnce() -> R,
) -> (R, Option<Arrival>) {
    let asks = rates.get().is_none();
    let restore = RestoreOuter::new(arrived, asks);
    let polled = poll();
    let reported = ARRIVAL.try_with(Cell::get).ok().flatten();
    drop(restore);
    if asks && reported.is_some() {
        let clock = RATES.try_with(Cell::take).ok().flatten();
        clock.inspect(|clock| drop(rates.set(clock.unbound())));
    }
    (polled, reported)
}

/// Returns whether the caller is the entrant of a fair queue.
#[inline(always)]
pub(crate) fn is_entrant() -> bool {
    depth() as u32 == 0
}

/// Returns the tick of this clock as of which the entrant has arrived, if it is not now.
pub(crate) fn arrival_on(clock: &Clock) -> Option<Tick> {
    let arrival = ARRIVAL.try_with(Cell::get).ok().flatten()?;
    (is_entrant() && arrival.clock == clock.id()).then_some(arrival.tick)
}

/// Reports the tick at which the entrant was charged, or as of which it waits for that.
pub(crate) fn report_arrival(clock: &Clock, tick: Tick) {
    let arrival = Arrival {
        clock: clock.id(),
        tick,
    };
    let _ = ARRIVAL.try_with(|cell| cell.set(Some(arrival)));
    if ASKS.try_with(Cell::get).unwrap_or_default() {
        let _ = RATES.try_with(|cell| cell.set(Some(clock.clone())));
    }
}
