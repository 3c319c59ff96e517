//! [`Latencies`]: durations of the last seconds.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// How long a duration is kept.
const KEPT: Duration = Duration::from_secs(8);

/// The durations that were recorded within the last eight seconds.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Mutex<VecDeque<(Instant, Duration)>>);

impl Latencies {
    /// Records a duration that ends now.
    pub(crate) fn record(&self, duration: Duration) {
        let now = Instant::now();
        let mut recorded = self.0.lock().expect("no code panics under the lock");
        recorded.push_back((now, duration));
        while recorded.front().is_some_and(|(at, _)| *at + KEPT <= now) {
            recorded.pop_front();
        }
    }

    /// Returns the 99th percentile of the durations within `span`, which is at most eight seconds, in
    /// milliseconds; `None` if there are none.
    pub(crate) fn p99_ms(&self, span: Duration) -> Option<f64> {
        let mut durations = self.within(span);
        let rank = (durations.len() * 99).div_ceil(100).checked_sub(1)?;
        let (_, p99, _) = durations.select_nth_unstable(rank);
        // Microseconds are more than anybody can read.
        Some((p99.as_secs_f64() * 1e6).round() / 1e3)
    }

    /// Returns how many of the last second are at most `bound`.
    pub(crate) fn last_second(&self, bound: Duration) -> u64 {
        let durations = self.within(Duration::from_secs(1));
        durations.iter().filter(|it| **it <= bound).count() as u64
    }

    fn within(&self, span: Duration) -> Vec<Duration> {
        let now = Instant::now();
        let recorded = self.0.lock().expect("no code panics under the lock");
        let recent = recorded.iter().rev().take_while(|(at, _)| *at + span > now);
        recent.map(|(_, duration)| *duration).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn p99_is_the_99th_of_a_hundred_within_the_span() {
        let latencies = Latencies::default();
        assert_eq!(latencies.p99_ms(KEPT), None);
        (1..=100).rev().for_each(|n| latencies.record(n * MS));
        assert_eq!(latencies.p99_ms(KEPT), Some(99.0));
        tokio::time::advance(KEPT - MS).await;
        assert_eq!(latencies.p99_ms(KEPT), Some(99.0));
        assert_eq!(latencies.p99_ms(KEPT - MS), None);
        tokio::time::advance(MS).await;
        assert_eq!(latencies.p99_ms(KEPT), None);
    }

    #[tokio::test(start_paused = true)]
    async fn last_second_counts_those_within_the_bound() {
        let latencies = Latencies::default();
        latencies.record(MS);
        tokio::time::advance(Duration::from_secs(1)).await;
        (1..=10).for_each(|n| latencies.record(n * MS));
        assert_eq!(latencies.last_second(4 * MS), 4);
    }
}
