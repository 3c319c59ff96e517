//! Where ticks come from.

use std::sync::OnceLock;
use std::time::Instant;

use super::tick::Tick;

/// A source of ticks.
///
/// One concrete type, never a type parameter. So far there is one kind, that of the system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(());

/// What the ticks of the system clock count from: the first time that it was asked.
static EPOCH: OnceLock<Instant> = OnceLock::new();

impl Clock {
    /// The clock of the operating system that only goes forward.
    pub(crate) const fn system() -> Self {
        Self(())
    }

    /// Now. Never earlier than an answer that happened before.
    pub(crate) fn now(self) -> Tick {
        Tick::after_epoch(EPOCH.get_or_init(Instant::now).elapsed())
    }
}
