//! By how much sleeps end late, learned from those that were.
//!
//! The estimate follows the third quartile: it goes up by three steps when a sleep was later than that, and down
//! by one when it was not. So single outliers, as when the thread lost its processor, move it no more than any other.
//!
//! A timer that fires every few microseconds is not helped by this: the thread would never sleep. What is
//! nearer than twice the estimate is slept for as it is, and several fire at once.

use std::time::Duration;

/// One step, in nanoseconds.
const STEP: u64 = 1_000;

/// The most that is believed: so long at most the thread is awake before it is time.
const MOST: u64 = 100_000;

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

    /// How long to sleep for something that is so far away; `None` to stay awake.
    pub(super) fn nap(&mut self, away: Duration) -> Option<Duration> {
        let early = Duration::from_nanos(self.nanos);
        if self.awake && away <= early {
            return None;
        }
        self.awake = away > 2 * early;
        Some(if self.awake { away - early } else { away })
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

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn what_is_far_is_slept_for_less_what_is_likely_to_be_too_much() {
        let mut oversleep = Oversleep::new();
        assert_eq!(oversleep.nap(micros(1000)), Some(micros(950)));
        // It ended early, so the rest is spent awake.
        assert_eq!(oversleep.nap(micros(20)), None);
        assert_eq!(oversleep.nap(micros(1)), None);
    }

    #[test]
    fn what_is_near_to_begin_with_is_slept_for_as_it_is() {
        let mut oversleep = Oversleep::new();
        assert_eq!(oversleep.nap(micros(1000)), Some(micros(950)));
        assert_eq!(oversleep.nap(micros(80)), Some(micros(80)));
        assert_eq!(oversleep.nap(micros(10)), Some(micros(10)));
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
