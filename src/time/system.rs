//! The clock of the process.

use std::sync::OnceLock;

use super::counter::CheckedCounter;
use super::machine::Machine;
use super::tick::Tick;

/// The machine's counter.
pub(super) type SystemCounter = CheckedCounter<Machine>;

/// Its epoch is when it is first asked for.
static COUNTER: OnceLock<SystemCounter> = OnceLock::new();

/// Returns the counter, to be kept by callers who read it often.
pub(super) fn counter() -> &'static SystemCounter {
    COUNTER.get_or_init(|| {
        let (machine, scale) = Machine::new();
        CheckedCounter::new(machine, scale)
    })
}

/// Returns the current tick.
#[inline]
pub(super) fn now() -> Tick {
    counter().now()
}
