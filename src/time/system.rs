//! The clock of the process: the counter of the processor (read with quanta, with the feature
//! `tsc`), compared with the clock of the operating system.

use std::sync::OnceLock;
use std::time::Instant;

#[cfg(feature = "tsc")]
use quanta::Clock as Processor;

use super::counter::{CheckedCounter, Source, scale_of};
use super::tick::Tick;

/// The machine's counter.
pub(crate) type SystemCounter = CheckedCounter<Machine>;

/// The counter of the process. Its epoch is its first use.
static COUNTER: OnceLock<SystemCounter> = OnceLock::new();

/// Returns the counter. Callers that read it often keep it.
#[inline]
pub(super) fn counter() -> &'static SystemCounter {
    COUNTER.get_or_init(|| {
        const COUNTS: u64 = 1 << 40;
        // Quanta estimates the scale, which takes some milliseconds.
        let processor = Processor::new();
        let scale = scale_of(processor.delta_as_nanos(0, COUNTS), COUNTS);
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
    processor: Processor,
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

/// Replaces the counter: it never changes, so it has no scale and is not used.
#[cfg(not(feature = "tsc"))]
struct Processor;

#[cfg(not(feature = "tsc"))]
impl Processor {
    fn new() -> Self {
        Self
    }

    fn raw(&self) -> u64 {
        0
    }

    fn delta_as_nanos(&self, _from: u64, _to: u64) -> u64 {
        0
    }
}
