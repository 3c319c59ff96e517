//! What a gate promises, on a clock that is moved by hand.

mod composed;
mod endings;
mod reopened;
mod shut;
mod threads;
mod waits;

use std::time::Duration;

use tollgate::{Clock, Gate, ManualClock};

const MINUTE: Duration = Duration::from_secs(60);
const NANO: Duration = Duration::from_nanos(1);

/// A gate that is open, a minute after the beginning of its clock.
fn open() -> (Gate, ManualClock) {
    let clock = Clock::manual();
    clock.advance(MINUTE);
    (Gate::new().clock(&clock), clock)
}

/// A gate that is shut for a minute.
fn shut() -> (Gate, ManualClock) {
    let (gate, clock) = open();
    gate.block_for(MINUTE);
    (gate, clock)
}
