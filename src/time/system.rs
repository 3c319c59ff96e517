//! The clock of the system: the counter of the processor, which takes a third of the time that it takes to
//! ask the operating system, held to the clock of the operating system.
//!
//! 1. A tick is what the counter says since the first time that it was asked, and a correction.
//! 2. The timer thread [corrects](correct) it, when it has something to do, if the two have come apart by more
//!    than 10 ms: the counter may be off by some 50 millionths, and a machine that was suspended or
//!    moved may have another one.
//! 3. A counter that is behind where it began was set back. It is not used any more.
//!
//! Two threads may disagree by a microsecond, as a processor may read its counter ahead of what comes before
//! it. Limiters mint nothing from an older time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::tick::Tick;

/// When it was first asked.
static EPOCH: OnceLock<Epoch> = OnceLock::new();

struct Epoch {
    counter: quanta::Clock,
    start: u64,
    instant: Instant,
}

/// What has to be added to the counter's nanoseconds, wrapping; or [`UNFIT`].
static CORRECTION: AtomicU64 = AtomicU64::new(0);

/// The counter is not to be used.
const UNFIT: u64 = 1 << 63;

/// How far the two may come apart.
const APART: Duration = Duration::from_millis(10);

impl Epoch {
    #[cold]
    fn new() -> Self {
        let counter = quanta::Clock::new();
        Self {
            start: counter.raw(),
            instant: Instant::now(),
            counter,
        }
    }

    /// What the counter says; 0 if it was set back.
    #[inline]
    fn counted(&self) -> u64 {
        self.counter.delta_as_nanos(self.start, self.counter.raw())
    }

    /// What the operating system says.
    #[cold]
    fn elapsed(&self) -> Tick {
        Tick::after_epoch(self.instant.elapsed())
    }
}

/// Now.
#[inline]
pub(super) fn now() -> Tick {
    let epoch = EPOCH.get_or_init(Epoch::new);
    let counted = epoch.counted();
    let correction = CORRECTION.load(Ordering::Relaxed);
    if counted == 0 || correction == UNFIT {
        return epoch.elapsed();
    }
    Tick::from_nanos(counted.wrapping_add(correction))
}

/// Sees to it that the counter agrees with the clock of the operating system.
pub(super) fn correct() {
    let epoch = EPOCH.get_or_init(Epoch::new);
    let truth = epoch.elapsed().as_nanos();
    let counted = epoch.counted();
    let correction = CORRECTION.load(Ordering::Relaxed);
    if let Some(correction) = corrected(counted, correction, truth) {
        CORRECTION.store(correction, Ordering::Relaxed);
    }
}

/// The correction that is needed, if the one that there is does not do.
fn corrected(counted: u64, correction: u64, truth: u64) -> Option<u64> {
    // One that was just begun is behind nothing.
    let began = u128::from(truth) < APART.as_nanos();
    if correction == UNFIT || began {
        return None;
    }
    if counted == 0 {
        return Some(UNFIT);
    }
    let apart = counted.wrapping_add(correction).abs_diff(truth);
    // A correction that happened to be the mark would be 292 years.
    (u128::from(apart) > APART.as_nanos()).then(|| truth.wrapping_sub(counted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    #[test]
    fn what_is_near_enough_is_left_alone() {
        assert_eq!(corrected(1000 * MILLI, 0, 1010 * MILLI), None);
        assert_eq!(corrected(1010 * MILLI, 0, 1000 * MILLI), None);
        assert_eq!(corrected(0, 0, MILLI), None);
    }

    #[test]
    fn what_has_come_apart_is_set_right() {
        for (counted, truth) in [(1000, 1011), (1011, 1000), (1, 5_000_000)] {
            let (counted, truth) = (counted * MILLI, truth * MILLI);
            let correction = corrected(counted, 0, truth).unwrap();
            assert_eq!(counted.wrapping_add(correction), truth);
            assert_eq!(corrected(counted, correction, truth), None);
        }
    }

    #[test]
    fn a_counter_that_was_set_back_is_not_used_any_more() {
        let unfit = corrected(0, 0, 1000 * MILLI);
        assert_eq!(unfit, Some(UNFIT));
        assert_eq!(corrected(1000 * MILLI, UNFIT, 2000 * MILLI), None);
    }

    #[test]
    fn the_clock_moves_on() {
        let (start, before) = (now(), Instant::now());
        while before.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        assert!(now().saturating_since(start) > Duration::from_millis(1));
    }
}
