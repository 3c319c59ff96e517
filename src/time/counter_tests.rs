//! Tests the counter on a simulated machine, whose counter and clock each test controls. The
//! numbers are exact.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::counter::{CheckedCounter, SHIFT, Source, scale_of};
use super::system;
use super::tick::Tick;

pub(super) const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;

/// The true scale of a [`Fake`] at its usual speed: four counts per nanosecond.
pub(super) const NANO_PER_COUNT: u64 = 1 << (SHIFT - 2);

/// A simulated machine.
#[derive(Clone)]
pub(super) struct Fake(Rc<Machine>);

struct Machine {
    raw: Cell<u64>,
    os: Cell<u64>,
    /// Counts per million nanoseconds.
    speed: Cell<u64>,
    /// The scale that was measured when the process started.
    estimate: u64,
    /// The number of the next reads of the operating system's clock that come after an
    /// interruption, and its nanoseconds.
    interruptions: Cell<(u32, u64)>,
    os_reads: Cell<u64>,
    /// Called just before the next read of the counter.
    before_raw: Cell<Option<Box<dyn FnOnce()>>>,
}

impl Source for Fake {
    fn raw(&self) -> u64 {
        if let Some(event) = self.0.before_raw.take() {
            event();
        }
        self.0.raw.get()
    }

    fn os_nanos(&self) -> u64 {
        self.0.os_reads.set(self.0.os_reads.get() + 1);
        let (times, nanos) = self.0.interruptions.get();
        if times > 0 {
            self.0.interruptions.set((times - 1, nanos));
            self.advance(nanos);
        }
        self.0.os.get()
    }
}

impl Fake {
    pub(super) fn new(estimate: u64, raw: u64) -> Self {
        Self(Rc::new(Machine {
            raw: Cell::new(raw),
            os: Cell::new(0),
            speed: Cell::new(4_000_000),
            estimate,
            interruptions: Cell::new((0, 0)),
            os_reads: Cell::new(0),
            before_raw: Cell::new(None),
        }))
    }

    /// Creates a machine with an estimate that makes time run at `millionths` of its speed.
    fn estimated(millionths: u64) -> Self {
        Self::new(scale_of(millionths, 4_000_000).unwrap(), 1 << 40)
    }

    pub(super) fn counter(&self) -> CheckedCounter<Self> {
        CheckedCounter::new(self.clone(), Some(self.0.estimate))
    }

    pub(super) fn advance(&self, nanos: u64) {
        self.suspend(nanos);
        let counts = u128::from(nanos) * u128::from(self.0.speed.get()) / 1_000_000;
        self.0.raw.set(self.0.raw.get().wrapping_add(counts as u64));
    }

    /// Passes time while the counter does not change.
    pub(super) fn suspend(&self, nanos: u64) {
        self.0.os.set(self.0.os.get() + nanos);
    }

    /// Sets the counter back by the counts of this many nanoseconds.
    pub(super) fn set_back(&self, nanos: u64) {
        self.0.raw.set(self.0.raw.get().wrapping_sub(4 * nanos));
    }

    fn os(&self) -> u64 {
        self.0.os.get()
    }

    /// Returns whether a read of this counter reads the operating system's clock.
    fn asks_os(&self, counter: &CheckedCounter<Self>) -> bool {
        let before = self.0.os_reads.get();
        counter.now();
        self.0.os_reads.get() != before
    }
}

fn nanos(counter: &CheckedCounter<Fake>) -> u64 {
    counter.now().as_nanos()
}

/// Passes two seconds, in which a counter that disagreed is measured.
fn measured(fake: &Fake, counter: &CheckedCounter<Fake>) {
    for _ in 0..2 {
        fake.advance(SECOND);
        counter.now();
    }
}

/// Returns how much the clock gains or loses in the next second, in which it is read every
/// millisecond.
fn gain(fake: &Fake, counter: &CheckedCounter<Fake>) -> i64 {
    let (before, mut last) = (nanos(counter), 0);
    for _ in 0..1000 {
        fake.advance(MILLI);
        last = nanos(counter);
    }
    (last - before) as i64 - SECOND as i64
}

/// Found by an external test: an interruption of 20 ms while quanta measured made every rate 11 to
/// 14 % too fast for the life of the process.
#[test]
fn now_with_a_fast_estimate_is_corrected_after_a_second() {
    let fake = Fake::estimated(1_125_000);
    let counter = fake.counter();
    // It runs at nine eighths, until the counter has counted the first second.
    fake.advance(800 * MILLI);
    assert_eq!(nanos(&counter), 900 * MILLI);
    fake.advance(SECOND);
    let lead = nanos(&counter) - fake.os();
    // It is at the end of the second, and not at 9/8 of the time that has passed.
    assert_eq!(lead, 0);
    let before = nanos(&counter);
    fake.advance(1);
    assert_eq!(nanos(&counter), before + 1);
    measured(&fake, &counter);
    for _ in 0..10 {
        assert!(gain(&fake, &counter).abs() <= 16);
    }
    assert!(!fake.asks_os(&counter));
}

#[test]
fn now_that_is_ahead_when_it_is_corrected_keeps_its_lead() {
    let fake = Fake::estimated(1_125_000);
    let counter = fake.counter();
    // The counter has counted a second at the read after 8/9 of a second.
    let lead = gain(&fake, &counter);
    assert!(
        (111 * MILLI as i64..=111 * MILLI as i64 + 20).contains(&lead),
        "{lead}"
    );
    // A new segment begins up to 63 counts early.
    let gains = (0..10).map(|_| gain(&fake, &counter));
    assert!(gains.map(i64::abs).sum::<i64>() <= 20);
    let ahead = (nanos(&counter) - fake.os()) as i64;
    assert!((ahead - lead).abs() <= 200, "{ahead}, {lead}");
}

#[test]
fn now_with_a_slow_estimate_is_corrected_after_a_second() {
    let fake = Fake::estimated(875_000);
    let counter = fake.counter();
    fake.advance(800 * MILLI);
    assert_eq!(nanos(&counter), 700 * MILLI);
    fake.advance(400 * MILLI);
    // It jumps to the operating system's time.
    assert_eq!(nanos(&counter), fake.os());
    measured(&fake, &counter);
    for _ in 0..10 {
        assert!(gain(&fake, &counter).abs() <= 16);
    }
    assert!(!fake.asks_os(&counter));
}

/// Quanta's own error was up to 277 millionths; 100 must not be exceeded, and 50 are promised.
#[test]
fn now_is_corrected_beyond_50_millionths_and_not_below() {
    for (millionths, corrected) in [
        (1_000_277, true),
        (999_723, true),
        (1_000_060, true),
        (999_940, true),
        (1_000_045, false),
        (999_955, false),
        (1_000_000, false),
    ] {
        let fake = Fake::estimated(millionths);
        let counter = fake.counter();
        fake.advance(1001 * MILLI);
        counter.now();
        assert_eq!(fake.asks_os(&counter), corrected, "{millionths}");
        measured(&fake, &counter);
        for _ in 0..5 {
            let gain = gain(&fake, &counter);
            assert!(gain.unsigned_abs() <= 50_000, "{millionths}: {gain}");
            assert!(!corrected || gain.abs() <= 16, "{millionths}: {gain}");
        }
    }
}

/// Seen in tikv/minstant#23; simulated here with a drift of a thousandth, for an hour.
#[test]
fn now_with_a_counter_that_drifts_is_corrected() {
    let fake = Fake::new(NANO_PER_COUNT, 3);
    let counter = fake.counter();
    // It is corrected regardless of how long it had been right before.
    fake.advance(100 * SECOND);
    counter.now();
    fake.0.speed.set(3_996_000);
    for _ in 0..4 {
        gain(&fake, &counter);
    }
    for _ in 0..3600 {
        fake.advance(SECOND);
        let (tick, os) = (nanos(&counter), fake.os());
        assert!(tick.abs_diff(os) <= 2 * MILLI, "{tick}, {os}");
    }
    assert!(gain(&fake, &counter).abs() <= 16);
}

/// No caller reads the clock for an hour: the next read returns the operating system's time.
#[test]
fn now_after_an_idle_hour_is_what_the_operating_system_says() {
    for millionths in [875_000, 1_125_000] {
        let fake = Fake::estimated(millionths);
        let counter = fake.counter();
        counter.now();
        fake.advance(3600 * SECOND);
        assert_eq!(nanos(&counter), 3600 * SECOND);
    }
}

#[test]
fn now_does_not_judge_by_a_comparison_that_was_interrupted() {
    let fake = Fake::new(NANO_PER_COUNT, 1 << 40);
    let counter = fake.counter();
    for _ in 0..5 {
        fake.advance(SECOND + MILLI);
        // Each attempt to take the sample is interrupted.
        fake.0.interruptions.set((4, 20 * MILLI));
        let before = nanos(&counter);
        assert!(!fake.asks_os(&counter));
        assert_eq!(nanos(&counter), before + 60 * MILLI + 20 * MILLI);
    }
    // One uninterrupted attempt is enough.
    let wrong = Fake::estimated(1_125_000);
    let counter = wrong.counter();
    wrong.advance(SECOND);
    wrong.0.interruptions.set((3, 20 * MILLI));
    counter.now();
    assert!(wrong.asks_os(&counter));
}

#[test]
fn now_does_not_measure_by_a_comparison_that_was_interrupted() {
    let fake = Fake::estimated(1_125_000);
    let counter = fake.counter();
    fake.advance(SECOND);
    let lead = nanos(&counter) - fake.os();
    for _ in 0..5 {
        fake.advance(SECOND);
        // In each of two calls, one read detects the end of a second, and four are attempts to take
        // the sample.
        fake.0.interruptions.set((10, 20 * MILLI));
        counter.now();
        assert!(fake.asks_os(&counter));
    }
    measured(&fake, &counter);
    measured(&fake, &counter);
    assert!(!fake.asks_os(&counter));
    assert!((nanos(&counter) - fake.os()).abs_diff(lead) <= 20);
}

/// Simulates an interruption of the calibration itself, and of the first comparison as well.
#[test]
fn now_with_a_first_sample_that_was_interrupted_heals() {
    let fake = Fake::new(NANO_PER_COUNT, 1 << 40);
    fake.0.interruptions.set((4, 20 * MILLI));
    let counter = fake.counter();
    for _ in 0..5 {
        gain(&fake, &counter);
    }
    for _ in 0..5 {
        assert!(gain(&fake, &counter).abs() <= 16);
    }
    assert!(!fake.asks_os(&counter));
}

#[test]
fn now_after_a_suspension_goes_on_at_the_right_rate() {
    let fake = Fake::new(NANO_PER_COUNT, 1 << 40);
    let counter = fake.counter();
    for _ in 0..3 {
        fake.advance(10 * SECOND);
        counter.now();
        fake.suspend(3600 * SECOND);
        fake.advance(SECOND);
        assert_eq!(nanos(&counter), fake.os());
        // No scale is computed from an interval with a leap in it.
        for _ in 0..6 {
            assert!(gain(&fake, &counter).abs() <= 16);
        }
        assert!(!fake.asks_os(&counter));
    }
}

/// Half of a second that is measured is a suspension.
#[test]
fn now_measured_over_a_suspension_is_measured_again() {
    let fake = Fake::estimated(1_125_000);
    let counter = fake.counter();
    fake.advance(SECOND);
    counter.now();
    fake.advance(600 * MILLI);
    fake.suspend(500 * MILLI);
    // The scale of this second would be too large by half of it.
    for _ in 0..4 {
        assert!(gain(&fake, &counter).abs() <= 20);
    }
    assert!(!fake.asks_os(&counter));
}

#[test]
fn checked_now_finds_a_leap_before_the_second_is_over() {
    let fake = Fake::new(NANO_PER_COUNT, 1 << 40);
    let counter = fake.counter();
    fake.advance(10 * MILLI);
    assert_eq!(counter.checked_now().as_nanos(), 10 * MILLI);
    assert!(!fake.asks_os(&counter));
    fake.suspend(MILLI);
    assert_eq!(nanos(&counter), 10 * MILLI);
    assert_eq!(counter.checked_now().as_nanos(), 11 * MILLI);
}

/// A thread is preempted between reading the segment and reading the counter, and the timer
/// abandons the segment meanwhile.
#[test]
fn now_in_a_segment_that_is_abandoned_meanwhile_does_not_go_ahead_of_its_end() {
    let fake = Fake::estimated(1_125_000);
    let counter = Rc::new(fake.counter());
    fake.advance(SECOND / 2);
    let (machine, timer) = (fake.clone(), Rc::clone(&counter));
    fake.0.before_raw.set(Some(Box::new(move || {
        timer.checked_now();
        machine.advance(100 * MILLI);
    })));
    let first = nanos(&counter);
    assert!(nanos(&counter) >= first);
}

#[test]
fn now_with_a_counter_that_was_set_back_does_not_go_back() {
    // The counter is set back to before its start, and to after it.
    for back in [20 * SECOND, 5 * SECOND] {
        // The clock is somewhat ahead of the operating system's, as it may be.
        let fake = Fake::estimated(1_000_040);
        let counter = fake.counter();
        for _ in 0..10 {
            fake.advance(SECOND);
            counter.now();
        }
        fake.advance(SECOND / 2);
        let before = nanos(&counter);
        assert!(before > fake.os());
        fake.set_back(back);
        let after = counter.checked_now().as_nanos();
        // At most to the end of the second that had begun.
        assert!(
            before <= after && after <= before + SECOND,
            "{before}, {after}"
        );
        for _ in 0..5 {
            assert!(gain(&fake, &counter).abs() <= 16);
        }
        assert!(!fake.asks_os(&counter));
    }
}

/// The counter was compared only at the old limit, so time fell behind by up to the length of the
/// whole segment.
#[test]
fn now_after_the_counter_was_set_back_within_its_segment_notices_at_once() {
    for back in [SECOND, 5 * SECOND, 3599 * SECOND] {
        let fake = Fake::new(NANO_PER_COUNT, 1 << 50);
        let counter = fake.counter();
        for _ in 0..3600 {
            fake.advance(SECOND);
            counter.now();
        }
        fake.advance(SECOND / 2);
        let before = nanos(&counter);
        fake.set_back(back);
        let after = nanos(&counter);
        // At most to the end of the second that had begun.
        assert!(
            before <= after && after <= before + SECOND,
            "{before}, {after}"
        );
        for _ in 0..5 {
            assert!(gain(&fake, &counter).abs() <= 16);
        }
        assert!(!fake.asks_os(&counter));
    }
}

/// Sets the counter back into the second since the last comparison, where this cannot be detected.
#[test]
fn now_after_the_counter_was_set_back_by_less_than_a_second_is_right_after_a_second() {
    let fake = Fake::new(NANO_PER_COUNT, 1 << 50);
    let counter = fake.counter();
    fake.advance(10 * SECOND);
    counter.now();
    fake.advance(SECOND / 2);
    let before = nanos(&counter);
    fake.set_back(SECOND / 4);
    assert_eq!(nanos(&counter), before - SECOND / 4);
    fake.advance(SECOND);
    assert_eq!(nanos(&counter), fake.os());
    for _ in 0..5 {
        assert!(gain(&fake, &counter).abs() <= 16);
    }
    assert!(!fake.asks_os(&counter));
}

#[test]
fn now_after_the_counter_was_set_back_by_less_than_the_tolerance_stands_still() {
    let fake = Fake::new(NANO_PER_COUNT, 1 << 50);
    let counter = fake.counter();
    fake.advance(2 * SECOND);
    let before = nanos(&counter);
    fake.set_back(40_000);
    assert_eq!(nanos(&counter), before);
    fake.advance(39_999);
    assert_eq!(nanos(&counter), before);
    assert!(fake.asks_os(&counter));
    fake.advance(11);
    assert_eq!(nanos(&counter), before + 10);
    assert!(!fake.asks_os(&counter));
}

#[test]
fn now_with_a_counter_that_is_never_steady_asks_the_operating_system_for_good() {
    let fake = Fake::new(NANO_PER_COUNT, 1 << 40);
    let counter = fake.counter();
    let mut last = 0;
    for second in 0..200 {
        fake.0.speed.set(4_000_000 + second % 7 * 1000);
        fake.advance(SECOND);
        let now = nanos(&counter);
        assert!(now >= last);
        last = now;
    }
    fake.0.speed.set(4_000_000);
    for _ in 0..5 {
        assert_eq!(gain(&fake, &counter), 0);
        assert!(fake.asks_os(&counter));
    }
}

/// The counter can be measured only as often as there are slots.
#[test]
fn now_with_a_counter_that_changes_too_often_asks_the_operating_system_for_good() {
    let fake = Fake::new(NANO_PER_COUNT, 1 << 40);
    let counter = fake.counter();
    let mut used = 0;
    for change in 0..100 {
        fake.0.speed.set(4_000_000 + change % 2 * 4000);
        for _ in 0..4 {
            gain(&fake, &counter);
        }
        used += usize::from(!fake.asks_os(&counter));
    }
    // A change takes one slot, or two if its first measurement spans both speeds.
    assert!((31..=63).contains(&used), "{used}");
    assert_eq!(gain(&fake, &counter), 0);
}

#[test]
fn now_without_a_counter_asks_the_operating_system() {
    let fake = Fake::new(NANO_PER_COUNT, 1 << 40);
    let counter = CheckedCounter::new(fake.clone(), None);
    fake.advance(12_345);
    assert_eq!(
        (nanos(&counter), counter.checked_now().as_nanos()),
        (12_345, 12_345)
    );
    assert!(fake.asks_os(&counter));
}

/// Under random events of the machine, the clock never goes back, and in the end it is right.
#[test]
fn now_never_goes_back() {
    for seed in 1..=300_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let estimate = scale_of(800_000 + below(400_000), 4_000_000).unwrap();
        // A counter never goes below zero.
        let fake = Fake::new(estimate, 1 << 50);
        let counter = fake.counter();
        let mut last = 0;
        for _ in 0..300 {
            match below(13) {
                0 => fake.0.speed.set(3_500_000 + below(1_000_000)),
                1 => fake.suspend(below(3 * SECOND)),
                2 => fake
                    .0
                    .interruptions
                    .set((below(6) as u32, below(20 * MILLI))),
                3 => drop(counter.checked_now()),
                // Set back to before the last comparison.
                4 => fake.set_back((4 + below(40)) * SECOND),
                5..=8 => fake.advance(below(MILLI)),
                _ => fake.advance(below(2 * SECOND)),
            }
            let now = nanos(&counter);
            assert!(now >= last, "{seed}: {last}, {now}");
            last = now;
        }
        fake.0.interruptions.set((0, 0));
        for _ in 0..6 {
            gain(&fake, &counter);
        }
        let gain = gain(&fake, &counter);
        assert!(gain.unsigned_abs() <= 50_000, "{seed}: {gain}");
    }
}

#[test]
fn scale_of_a_slow_counter_is_exact() {
    // 24 MHz: 41 and two thirds nanoseconds per count. No processor of the x86 family is so slow.
    let scale = scale_of(1000, 24);
    assert_eq!(scale.is_none(), cfg!(target_arch = "x86_64"));
    let fake = Fake::new(NANO_PER_COUNT, 0);
    let counter = CheckedCounter::new(fake.clone(), scale);
    fake.0.raw.set(12_000_000);
    fake.0.os.set(SECOND / 2);
    assert!(nanos(&counter).abs_diff(SECOND / 2) <= 64 * 42);
    // A counter that is slower than that, or does not change, is not used either.
    let none = (scale_of(64, 1), scale_of(1, 0), scale_of(0, 1));
    assert_eq!(none, (None, None, None));
}

#[test]
fn system_clock_moves_on() {
    let (start, before) = (system::now(), Instant::now());
    while before.elapsed() < Duration::from_millis(2) {
        std::hint::spin_loop();
    }
    assert!(system::now().saturating_since(start) > Duration::from_millis(1));
    assert!(system::counter().checked_now() > Tick::default());
}
