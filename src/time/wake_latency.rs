//! How long the timer thread sleeps.
//!
//! Sleeps end late, mostly by about the same time. So for a distant deadline the thread sleeps that much
//! shorter, and yields its processor until the deadline. It measures its sleeps: the estimate follows the
//! third quartile, up by three steps when a sleep was later than that, and down by one when it was not.
//! A single outlier, such as a preemption, moves it no more than any other sleep.
//!
//! Deadlines in quick succession are batched, at most every [`BATCH_INTERVAL`]: a thread that is woken
//! for each of a hundred thousand a second does nothing but sleep and wake.

use std::time::Duration;

/// One step, in nanoseconds.
const STEP: u64 = 1_000;

/// The largest estimate: the thread is awake for at most so long before a deadline.
const MAX: u64 = 100_000;

/// The least time between two batches.
const BATCH_INTERVAL: Duration = Duration::from_micros(90);

/// By how much a sleep is likely to end late.
pub(super) struct WakeLatency {
    nanos: u64,
    /// Whether the last sleep was cut short, for a deadline that is yet to come.
    awake: bool,
}

impl WakeLatency {
    pub(super) fn new() -> Self {
        Self {
            nanos: 50 * STEP,
            awake: false,
        }
    }

    /// Returns how long to sleep for a deadline that is `away`, if the last batch was `since` ago;
    /// `None` to stay awake.
    pub(super) fn sleep_for(&mut self, away: Duration, since: Duration) -> Option<Duration> {
        let early = Duration::from_nanos(self.nanos);
        if self.awake && away <= early {
            return None;
        }
        self.awake = away > BATCH_INTERVAL.max(2 * early);
        if self.awake {
            return Some(away - early);
        }
        let rest = BATCH_INTERVAL.saturating_sub(since);
        // The sleep is likely to end late by itself.
        Some(away.max(rest.saturating_sub(early)))
    }

    /// Records by how much a sleep has ended late.
    pub(super) fn record(&mut self, late: Duration) {
        let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.nanos = if late > self.nanos {
            (self.nanos + 3 * STEP).min(MAX)
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
    fn sleep_for_far_deadline_is_shorter_by_the_latency() {
        let mut latency = WakeLatency::new();
        assert_eq!(latency.sleep_for(micros(1000), LONG), Some(micros(950)));
        // It ended early, so the rest is spent awake.
        assert_eq!(latency.sleep_for(micros(20), LONG), None);
        assert_eq!(latency.sleep_for(micros(1), LONG), None);
    }

    #[test]
    fn sleep_for_near_deadline_is_not_shortened() {
        let mut latency = WakeLatency::new();
        assert_eq!(latency.sleep_for(micros(1000), LONG), Some(micros(950)));
        assert_eq!(latency.sleep_for(micros(80), LONG), Some(micros(80)));
        assert_eq!(latency.sleep_for(micros(10), LONG), Some(micros(10)));
    }

    #[test]
    fn sleep_for_deadlines_in_quick_succession_batches_them() {
        let mut latency = WakeLatency::new();
        (0..40).for_each(|_| latency.record(micros(0)));
        // So long since, and ten that the sleep is likely to be late.
        let rest = BATCH_INTERVAL - micros(1) - micros(10);
        assert_eq!(latency.sleep_for(micros(15), micros(1)), Some(rest));
        assert_eq!(
            latency.sleep_for(micros(15), BATCH_INTERVAL),
            Some(micros(15))
        );
        // Sleeps that are late anyway need not be longer.
        (0..100).for_each(|_| latency.record(micros(500)));
        assert_eq!(latency.sleep_for(micros(5), micros(1)), Some(micros(5)));
    }

    #[test]
    fn record_follows_the_third_quartile() {
        let mut latency = WakeLatency::new();
        for round in 0..10_000 {
            // One in ten is an outlier.
            let late = if round % 10 == 0 { 5000 } else { 30 };
            latency.record(micros(late));
        }
        assert!(
            (28_000..=36_000).contains(&latency.nanos),
            "{}",
            latency.nanos
        );
        (0..1000).for_each(|_| latency.record(micros(5000)));
        assert_eq!(latency.nanos, MAX);
        (0..1000).for_each(|_| latency.record(micros(0)));
        assert_eq!(latency.nanos, 0);
    }
}
