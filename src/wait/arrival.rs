//! The arrival hint: how a fair queue and the rate limiters behind its throttle exchange ticks past the futures
//! between them. The queue passes on the tick as of which its entrant counts as having arrived, and each limiter
//! reports the tick of its charge.
//!
//! 1. Thread-locals carry the hint, like [that of a timeout](super::deadline_hint). It is set only while a fair
//!    queue polls its entrant, and it is read only by the throttles that the entrant itself polls: a wait that is
//!    polled inside, through another [`Waiting`](super::Waiting), is hidden from it.
//! 2. An entrant goes from throttle to throttle, and its tick goes with it: it enters the next one, in the same
//!    poll, as of the tick at which the one before has charged it. An entrant that has waited for a throttle
//!    without a report, such as a semaphore, enters the next one as of now.
//! 3. A tick belongs to its clock. A limiter on another clock enters the caller as of now.
//! 4. An entrant enters no limiter without a report, so the next entrant is never as of a tick before that of
//!    a charge: no way of entering that decides without the lock is used for it.

use std::cell::Cell;

use super::deadline_hint::depth;
use crate::sync::thread_local;
use crate::time::{Clock, Tick};

/// A tick, and the clock that it is of.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) clock: Clock,
    pub(crate) tick: Tick,
}

thread_local! {
    /// The depth at which the waits of an entrant are polled, if there is one.
    static ENTRANT: Cell<Option<u32>> = const { Cell::new(None) };
    static ARRIVAL: Cell<Option<Arrival>> = const { Cell::new(None) };
}

// Like the hint of a timeout, it is missing in the destructors of other thread-locals.

fn replace(arrival: Option<Arrival>) -> Option<Arrival> {
    let replaced = ARRIVAL.try_with(|cell| cell.replace(arrival));
    replaced.ok().flatten()
}

/// Restores the hint of an outer entrant, also when the poll panics.
struct Restore {
    entrant: Option<u32>,
    arrival: Option<Arrival>,
}

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = ENTRANT.try_with(|cell| cell.set(self.entrant));
        replace(self.arrival.take());
    }
}

/// Polls the wait of an entrant, which counts as having arrived at a tick, or now. Also returns the tick of its
/// last charge, or that as of which it waits for one; if nothing was reported, it is the same as before.
pub(crate) fn poll_entrant<R>(
    arrived: Option<Arrival>,
    poll: impl FnOnce() -> R,
) -> (R, Option<Arrival>) {
    let entrant = ENTRANT.try_with(|cell| cell.replace(Some(depth().wrapping_add(1))));
    let restore = Restore {
        entrant: entrant.ok().flatten(),
        arrival: replace(arrived),
    };
    let polled = poll();
    let reported = replace(None);
    drop(restore);
    (polled, reported)
}

/// Returns whether a fair queue polls the caller, its entrant.
#[inline(always)]
pub(crate) fn is_entrant() -> bool {
    let entrant = ENTRANT.try_with(Cell::get).ok().flatten();
    entrant.is_some_and(|entrant| entrant == depth())
}

/// Returns the tick of this clock as of which the caller counts as having arrived, if it is not now.
pub(crate) fn arrival_on(clock: &Clock) -> Option<Tick> {
    if !is_entrant() {
        return None;
    }
    let arrival = replace(None)?;
    let tick = arrival.clock.is_same(clock).then_some(arrival.tick);
    replace(Some(arrival));
    tick
}

/// Reports the tick at which the caller was charged, or as of which it waits, if it is an entrant.
#[inline]
pub(crate) fn report_arrival(clock: &Clock, tick: Tick) {
    if is_entrant() {
        let clock = clock.clone();
        replace(Some(Arrival { clock, tick }));
    }
}
