//! [`Alarm`]: calls a waker at a tick of a clock, without a task or thread of its own.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tollgate::time::Tick;
use tollgate::wait::Waiting;
use tollgate::{Clock, Gate, Throttle};

/// The wait for a time, on the timer of a clock.
pub(super) type Sleep = Pin<Box<Waiting<<Gate as Throttle>::Enter>>>;

/// Returns a future that ends after a time.
pub(super) fn sleep(clock: &Clock, duration: Duration) -> Sleep {
    let gate = Gate::new().clock(clock);
    gate.block_for(duration);
    Box::pin(gate.acquire_owned())
}

/// A waker that is called at a tick, unless the alarm is dropped before.
pub(super) struct Alarm {
    pub(super) due: Tick,
    _sleep: Sleep,
}

impl Alarm {
    /// Sets an alarm. It may call the waker at once, so it needs to be called without a lock.
    pub(super) fn new(clock: &Clock, due: Tick, waker: &Waker) -> Self {
        let mut sleep = sleep(clock, due.saturating_since(clock.now()));
        if sleep
            .as_mut()
            .poll(&mut Context::from_waker(waker))
            .is_ready()
        {
            waker.wake_by_ref();
        }
        Self { due, _sleep: sleep }
    }
}
