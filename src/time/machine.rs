//! The counter of the processor and the clock of the operating system, by quanta.

use std::time::Instant;

use super::counter::{Source, scale_of};

pub(super) struct Machine {
    clock: quanta::Clock,
    began: Instant,
}

impl Machine {
    /// Returns the source and quanta's estimate of the scale, which takes quanta some milliseconds.
    pub(super) fn new() -> (Self, Option<u64>) {
        const COUNTS: u64 = 1 << 40;
        let clock = quanta::Clock::new();
        let scale = scale_of(clock.delta_as_nanos(0, COUNTS), COUNTS);
        let began = Instant::now();
        (Self { clock, began }, scale)
    }
}

impl Source for Machine {
    #[inline(always)]
    fn raw(&self) -> u64 {
        self.clock.raw()
    }

    fn os_nanos(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
