//! The clock of the system: the counter of the processor, which takes a third of the time that it
//! takes to ask the operating system, held to the clock of the operating system.
//!
//! 1. A tick is what the counter has counted since its *start*.
//! 2. The timer thread [moves the start](correct), when it has something to do, if the counter is
//!    behind by more than 10 ms: it may be off by some 50 millionths, and a machine that was
//!    suspended or moved may have another one. If it is ahead, nothing is done: a rate that is off
//!    by so little is no harm, and time that goes back would be.
//! 3. A counter that is behind its start was set back. It is corrected at once, and if that cannot
//!    be done, the operating system is asked from then on. One that was set back by less is noticed
//!    by a limiter to which more is owed than can be, which has it corrected.
//!
//! Two threads may disagree by a microsecond or two, as a processor may read its counter ahead of
//! what comes before it; after a lock was taken it was less than one. Limiters mint nothing from an older time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::tick::Tick;

/// The counter, since it was first asked.
static COUNTER: OnceLock<Counter> = OnceLock::new();

/// The counter of the processor.
pub(super) struct Counter {
    clock: quanta::Clock,
    /// When it was first asked.
    instant: Instant,
    /// What it counted at tick 0; or [`UNFIT`].
    start: AtomicU64,
    scale: Scale,
}

/// How long a count is.
#[derive(Clone, Copy)]
struct Scale {
    /// Whole nanoseconds, none for a counter that is faster.
    whole: u64,
    /// The rest: a fraction of 2^64.
    fraction: u64,
}

/// In place of the start of a counter that is not to be used.
const UNFIT: u64 = u64::MAX;

/// How far it may be behind.
const APART: Duration = Duration::from_millis(10);

impl Scale {
    /// So many nanoseconds in 2^40 counts.
    const fn new(nanos: u64) -> Self {
        Self {
            whole: nanos >> 40,
            fraction: nanos << 24,
        }
    }

    #[inline(always)]
    fn nanos(self, counts: u64) -> u64 {
        let part = (u128::from(counts) * u128::from(self.fraction)) >> 64;
        counts.wrapping_mul(self.whole).wrapping_add(part as u64)
    }

    fn counts(self, nanos: u64) -> Option<u64> {
        let count = u128::from(self.whole) << 64 | u128::from(self.fraction);
        u64::try_from((u128::from(nanos) << 64).checked_div(count)?).ok()
    }
}

impl Counter {
    fn new() -> Self {
        let clock = quanta::Clock::new();
        Self {
            instant: Instant::now(),
            start: AtomicU64::new(clock.raw()),
            scale: Scale::new(clock.delta_as_nanos(0, 1 << 40)),
            clock,
        }
    }

    /// Now.
    #[inline(always)]
    pub(super) fn now(&self) -> Tick {
        let start = self.start.load(Ordering::Relaxed);
        match self.clock.raw().checked_sub(start) {
            Some(counts) => Tick::from_nanos(self.scale.nanos(counts)),
            None => self.elapsed(),
        }
    }

    /// What the operating system says.
    #[cold]
    #[inline(never)]
    fn elapsed(&self) -> Tick {
        let truth = Tick::after_epoch(self.instant.elapsed());
        self.correct(truth);
        truth
    }

    /// Sees to it that it agrees with the clock of the operating system.
    fn correct(&self, truth: Tick) {
        let start = self.start.load(Ordering::Relaxed);
        if start == UNFIT {
            return;
        }
        if let Some(start) = corrected(start, self.clock.raw(), self.scale, truth.as_nanos()) {
            self.start.store(start, Ordering::Relaxed);
        }
    }
}

/// The counter, to be kept by whoever asks often.
pub(super) fn counter() -> &'static Counter {
    COUNTER.get_or_init(Counter::new)
}

/// Now.
#[inline]
pub(super) fn now() -> Tick {
    counter().now()
}

/// Sees to it that the counter agrees with the clock of the operating system.
pub(super) fn correct() {
    counter().elapsed();
}

/// The start that is needed, if the one that there is does not do.
fn corrected(start: u64, raw: u64, scale: Scale, truth: u64) -> Option<u64> {
    let counted = raw.checked_sub(start).map(|counts| scale.nanos(counts));
    match counted {
        Some(counted) if u128::from(truth.saturating_sub(counted)) <= APART.as_nanos() => None,
        _ => {
            let counts = scale.counts(truth);
            let start = counts.and_then(|counts| raw.checked_sub(counts));
            Some(start.unwrap_or(UNFIT))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;
    /// Two and a half counts a nanosecond.
    const SCALE: Scale = Scale::new((1 << 40) * 2 / 5);

    fn counts(millis: u64) -> u64 {
        millis * MILLI * 5 / 2
    }

    #[test]
    fn a_slow_counter_is_scaled_as_well() {
        // 41 and two thirds nanoseconds a count.
        let scale = Scale::new((1 << 40) / 24 * 1000);
        let nanos = scale.nanos(24_000_000);
        assert!(nanos.abs_diff(1_000_000_000) <= 1, "{nanos}");
        assert_eq!(scale.counts(1_000_000_000), Some(24_000_000));
    }

    #[test]
    fn what_is_near_enough_is_left_alone() {
        let raw = 7 + counts(1000);
        assert_eq!(corrected(7, raw, SCALE, 1009 * MILLI), None);
        assert_eq!(corrected(7, raw, SCALE, 991 * MILLI), None);
        assert_eq!(corrected(7, raw, SCALE, 10 * MILLI), None);
    }

    #[test]
    fn what_is_behind_is_set_right() {
        for (counted, truth) in [(1000, 1011), (0, 15), (10, 29)] {
            let began = counts(20);
            let raw = began + counts(counted);
            let start = corrected(began, raw, SCALE, truth * MILLI).unwrap();
            let now = SCALE.nanos(raw - start);
            assert!(now.abs_diff(truth * MILLI) <= 1, "{now}");
            assert_eq!(corrected(start, raw, SCALE, truth * MILLI), None);
        }
    }

    /// Seen in tikv/minstant#23. Here by a thousandth, for an hour, compared each second.
    #[test]
    fn a_counter_that_drifts_is_never_far_behind() {
        // The machine has been up for a while.
        let up = counts(1_000_000);
        let (mut start, mut corrections) = (up, 0);
        for second in 1..=3600 {
            let (raw, truth) = (up + counts(999 * second), 1000 * second * MILLI);
            if let Some(right) = corrected(start, raw, SCALE, truth) {
                start = right;
                corrections += 1;
            }
            let behind = truth - SCALE.nanos(raw - start).min(truth);
            assert!(u128::from(behind) <= APART.as_nanos(), "{behind}");
        }
        // Ten milliseconds each time.
        assert!((320..=360).contains(&corrections), "{corrections}");
    }

    #[test]
    fn a_counter_that_was_set_back_is_not_used_unless_it_can_be_set_right() {
        let truth = 1000 * MILLI;
        assert_eq!(corrected(counts(10), counts(5), SCALE, truth), Some(UNFIT));
        let start = corrected(counts(9000), counts(5000), SCALE, truth);
        assert!(start.is_some_and(|start| start.abs_diff(counts(4000)) < 10));
    }

    #[test]
    fn a_counter_that_is_behind_its_start_asks_the_operating_system() {
        let counter = Counter::new();
        counter.start.store(UNFIT, Ordering::Relaxed);
        assert!(counter.now() <= Tick::after_epoch(counter.instant.elapsed()));
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
