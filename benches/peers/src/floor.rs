//! The floor of a rate decision: a reading of the clock, and a compare-exchange of the word that the reading is
//! compared with. A refusal writes nothing. The floor enforces no rate.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A clock, and the word that a decision compares the time with.
pub struct DecisionFloor<C> {
    clock: C,
    due: AtomicU64,
    interval: u64,
}

impl<C> DecisionFloor<C> {
    /// Creates one whose word advances by the interval, if that is below a second, and otherwise to
    /// a tick that is never reached.
    pub fn new(clock: C, interval: Duration) -> DecisionFloor<C> {
        let scarce = interval >= Duration::from_secs(1);
        DecisionFloor {
            clock,
            due: AtomicU64::new(0),
            interval: if scarce { u64::MAX / 2 } else { 1 },
        }
    }

    /// Decides at the clock's present tick.
    #[inline]
    pub fn decide(&self, read: impl Fn(&C) -> u64) -> bool {
        let now = read(&self.clock);
        let mut due = self.due.load(Relaxed);
        while due <= now {
            let next = due + self.interval;
            match self.due.compare_exchange_weak(due, next, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(actual) => due = actual,
            }
        }
        false
    }
}
