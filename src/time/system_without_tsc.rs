//! The clock of the system, as the operating system has it.

use std::sync::OnceLock;
use std::time::Instant;

use super::tick::Tick;

/// What the ticks of the system clock count from: the first time that it was asked.
static EPOCH: OnceLock<Instant> = OnceLock::new();

/// Now.
#[inline]
pub(super) fn now() -> Tick {
    Tick::after_epoch(EPOCH.get_or_init(Instant::now).elapsed())
}

/// It needs no correction.
pub(super) fn correct() {}
