//! The clock of the system, as the operating system has it.

use std::sync::OnceLock;
use std::time::Instant;

use super::tick::Tick;

/// The clock, since it was first asked.
static COUNTER: OnceLock<Counter> = OnceLock::new();

/// The clock of the operating system.
pub(super) struct Counter(Instant);

impl Counter {
    /// Now.
    #[inline]
    pub(super) fn now(&self) -> Tick {
        Tick::after_epoch(self.0.elapsed())
    }
}

/// The clock, to be kept by whoever asks often.
pub(super) fn counter() -> &'static Counter {
    COUNTER.get_or_init(|| Counter(Instant::now()))
}

/// Now.
#[inline]
pub(super) fn now() -> Tick {
    counter().now()
}

/// It needs no correction.
pub(super) fn correct() {}
