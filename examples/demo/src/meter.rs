//! [`Meter`]: a counter that knows its rate.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Counts, and measures the rate over the last second from samples that are taken ten times as often.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    total: AtomicU64,
    /// When the counter was read and what it was, over the last second and one sample before it.
    samples: Mutex<VecDeque<(Instant, u64)>>,
}

impl Meter {
    pub(crate) fn add(&self, n: u64) {
        // Only the number is published.
        self.total.fetch_add(n, Ordering::Relaxed);
    }

    /// Returns how many there have been.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Takes a sample, and returns how many there were per second, over the last second.
    pub(crate) fn per_second(&self) -> u64 {
        let (now, total) = (Instant::now(), self.total());
        let mut samples = self.samples.lock().expect("no code panics under the lock");
        if samples.is_empty() {
            samples.push_back((now, 0));
        }
        samples.push_back((now, total));
        while samples.get(1).is_some_and(|(at, _)| *at + SECOND <= now) {
            samples.pop_front();
        }
        let (at, before) = samples[0];
        // Less than a second after the start, the second is not over.
        let span = (now - at).max(SECOND);
        ((total - before) as f64 / span.as_secs_f64()).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn per_second_counts_the_last_second() {
        let meter = Meter::default();
        meter.add(7);
        assert_eq!(meter.per_second(), 7);
        for _ in 0..10 {
            tokio::time::advance(SECOND / 10).await;
            meter.add(2);
            meter.per_second();
        }
        // What came before the first sample was more than a second ago.
        assert_eq!((meter.per_second(), meter.total()), (20, 27));
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(meter.per_second(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn per_second_between_samples_far_apart_is_the_mean() {
        let meter = Meter::default();
        meter.per_second();
        tokio::time::advance(4 * SECOND).await;
        meter.add(20);
        assert_eq!(meter.per_second(), 5);
    }
}
