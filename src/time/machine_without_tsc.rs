//! The clock of the operating system, without the feature `tsc`.

use std::time::Instant;

use super::counter::Source;

pub(super) struct Machine(Instant);

impl Machine {
    /// Returns the source, and that there is no counter to be used.
    pub(super) fn new() -> (Self, Option<u64>) {
        (Self(Instant::now()), None)
    }
}

impl Source for Machine {
    #[inline(always)]
    fn raw(&self) -> u64 {
        0
    }

    fn os_nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
