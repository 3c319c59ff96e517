//! How long the timer thread sleeps.
//!
//! Sleeps end late, and mostly by about the same. So for something that is far away the thread
//! sleeps that much shorter, and gives way to others until it is time. How late sleeps are is
//! learned from those that were: the estimate follows the third quartile, up by three steps when a
//! sleep was later than that, and down by one when it was not. So single outliers, as when the
//! thread lost its processor, move it no more than any other.
//!
//! What is due in quick succession is let go together, at most every [`TOGETHER`]: a thread that is
//! woken for each of a hundred thousand a second does nothing but sleep and wake.

use std::time::Duration;

/// One step, in nanoseconds.
const STEP: u64 = 1_000;

/// The most that is believed: so long at most the thread is awake before it is time.
const MOST: u64 = 100_000;

/// How often the thread wakes at most.
const TOGETHER: Duration = Duration::from_micros(90);

/// By how much a sleep is likely to end late.
pub(super) struct Oversleep {
    nanos: u64,
    /// The last sleep was for something that is not there yet.
    awake: bool,
}

impl Oversleep {
    pub(super) fn new() -> Self {
        Self {
            nanos: 50 * STEP,
            awake: false,
        }
    }

    /// How long to sleep for something that is so far away, if the last was let go `since` then;
    /// `None` to stay awake.
    pub(super) fn nap(&mut self, away: Duration, since: Duration) -> Option<Duration> {
        let early = Duration::from_nanos(self.nanos);
        if self.awake && away <= early {
            return None;
        }
        self.awake = away > TOGETHER.max(2 * early);
        if self.awake {
            return Some(away - early);
        }
        let together = TOGETHER.saturating_sub(since);
        // For nothing else, the sleep need not be longer than that.
        Some(away.max(together.saturating_sub(early)))
    }

    /// A sleep has ended so late.
    pub(super) fn learn(&mut self, late: Duration) {
        let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.nanos = if late > self.nanos {
            (self.nanos + 3 * STEP).min(MOST)
        } else {
            self.nanos.saturating_sub(STEP)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1);

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn what_is_far_is_slept_for_less_what_is_likely_to_be_too_much() {
        let mut oversleep = Oversleep::new();
        assert_eq!(oversleep.nap(micros(1000), LONG), Some(micros(950)));
        // It ended early, so the rest is spent awake.
        assert_eq!(oversleep.nap(micros(20), LONG), None);
        assert_eq!(oversleep.nap(micros(1), LONG), None);
    }

    #[test]
    fn what_is_near_to_begin_with_is_slept_for_as_it_is() {
        let mut oversleep = Oversleep::new();
        assert_eq!(oversleep.nap(micros(1000), LONG), Some(micros(950)));
        assert_eq!(oversleep.nap(micros(80), LONG), Some(micros(80)));
        assert_eq!(oversleep.nap(micros(10), LONG), Some(micros(10)));
    }

    #[test]
    fn what_comes_in_quick_succession_goes_together() {
        let mut oversleep = Oversleep::new();
        (0..40).for_each(|_| oversleep.learn(micros(0)));
        // So long since, and ten that the sleep is likely to be late.
        let rest = TOGETHER - micros(1) - micros(10);
        assert_eq!(oversleep.nap(micros(15), micros(1)), Some(rest));
        assert_eq!(oversleep.nap(micros(15), TOGETHER), Some(micros(15)));
        // Sleeps that are late anyway need not be longer.
        (0..100).for_each(|_| oversleep.learn(micros(500)));
        assert_eq!(oversleep.nap(micros(5), micros(1)), Some(micros(5)));
    }

    #[test]
    fn it_learns_what_most_sleeps_come_to() {
        let mut oversleep = Oversleep::new();
        for round in 0..10_000 {
            // One in ten is an outlier.
            let late = if round % 10 == 0 { 5000 } else { 30 };
            oversleep.learn(micros(late));
        }
        assert!(
            (28_000..=36_000).contains(&oversleep.nanos),
            "{}",
            oversleep.nanos
        );
        (0..1000).for_each(|_| oversleep.learn(micros(5000)));
        assert_eq!(oversleep.nanos, MOST);
        (0..1000).for_each(|_| oversleep.learn(micros(0)));
        assert_eq!(oversleep.nanos, 0);
    }
}
