//! The clock of the process: the counter of the processor (by quanta, with the feature `tsc`), compared with
//! the clock of the operating system.

use std::sync::OnceLock;
use std::time::Instant;

use super::counter::{CheckedCounter, Source};
use super::tick::Tick;

/// The machine's counter.
pub(crate) type SystemCounter = CheckedCounter<Machine>;

/// Its epoch is when it is first asked for.
static COUNTER: OnceLock<SystemCounter> = OnceLock::new();

/// Returns the counter, to be kept by callers who read it often.
pub(super) fn counter() -> &'static SystemCounter {
    COUNTER.get_or_init(|| {
        let (processor, scale) = processor::new();
        let began = Instant::now();
        CheckedCounter::new(Machine { processor, began }, scale)
    })
}

/// Returns the current tick.
#[inline]
pub(super) fn now() -> Tick {
    counter().now()
}

/// The counter of the processor and the clock of the operating system.
pub(crate) struct Machine {
    processor: processor::Clock,
    began: Instant,
}

impl Source for Machine {
    #[inline(always)]
    fn raw(&self) -> u64 {
        self.processor.raw()
    }

    fn os_nanos(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(feature = "tsc")]
mod processor {
    pub(super) use quanta::Clock;

    use super::super::counter::scale_of;

    /// Returns the counter and quanta's estimate of its scale, which takes quanta some milliseconds.
    pub(super) fn new() -> (Clock, Option<u64>) {
        const COUNTS: u64 = 1 << 40;
        let clock = Clock::new();
        let scale = scale_of(clock.delta_as_nanos(0, COUNTS), COUNTS);
        (clock, scale)
    }
}

#[cfg(not(feature = "tsc"))]
mod processor {
    pub(crate) struct Clock;

    /// Returns that there is no counter to be used.
    pub(super) fn new() -> (Clock, Option<u64>) {
        (Clock, None)
    }

    impl Clock {
        pub(super) fn raw(&self) -> u64 {
            0
        }
    }
}
