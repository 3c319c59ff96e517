//! [`Latencies`]: durations of the last seconds.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_observe::{Observer, Place};

/// How long a duration is kept.
const KEPT: Duration = Duration::from_secs(8);

/// The durations that were recorded within the last eight seconds. As an observer, it records how
/// long permits are held.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Mutex<Recorded>);

#[derive(Debug, Default)]
struct Recorded {
    /// When each ended, and how long it was.
    durations: VecDeque<(Instant, Duration)>,
    restarted: Option<Instant>,
}

impl Latencies {
    /// Records a duration that ends now.
    pub(crate) fn record(&self, duration: Duration) {
        let now = Instant::now();
        let durations = &mut self.recorded().durations;
        durations.push_back((now, duration));
        while durations.front().is_some_and(|(at, _)| *at + KEPT <= now) {
            durations.pop_front();
        }
    }

    /// Leaves durations that began up to now out of percentiles, which then show at once what has
    /// changed.
    pub(crate) fn restart(&self) {
        self.recorded().restarted = Some(Instant::now());
    }

    /// Returns the 99th percentile of the durations within `span`, which is at most eight seconds, in
    /// milliseconds; `None` if there are none that began since `restart`.
    pub(crate) fn p99_ms(&self, span: Duration) -> Option<f64> {
        let restarted = self.recorded().restarted;
        let mut durations = self.within(span, |ended, duration| {
            restarted.is_none_or(|restarted| restarted + duration < ended)
        });
        let rank = (durations.len() * 99).div_ceil(100).checked_sub(1)?;
        let (_, p99, _) = durations.select_nth_unstable(rank);
        // Microseconds are more than anybody can read.
        Some((p99.as_secs_f64() * 1e6).round() / 1e3)
    }

    /// Returns how many of the last second are at most `bound`.
    pub(crate) fn last_second(&self, bound: Duration) -> u64 {
        let in_time = |_, duration| duration <= bound;
        self.within(Duration::from_secs(1), in_time).len() as u64
    }

    /// Returns the durations that ended within `span` and that `keep` says yes to.
    fn within(&self, span: Duration, keep: impl Fn(Instant, Duration) -> bool) -> Vec<Duration> {
        let now = Instant::now();
        let recorded = self.recorded();
        let all = recorded.durations.iter().rev();
        all.take_while(|(ended, _)| *ended + span > now)
            .filter(|(ended, duration)| keep(*ended, *duration))
            .map(|(_, duration)| *duration)
            .collect()
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().expect("no code panics under the lock")
    }
}

impl Observer for Latencies {
    type Held = Instant;

    fn admitted(&self, _: Place, _: Option<Duration>) -> Instant {
        Instant::now()
    }

    fn released(&self, since: Instant) {
        self.record(since.elapsed());
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
    async fn restart_leaves_what_began_before_out_of_percentiles_only() {
        let latencies = Latencies::default();
        latencies.record(5 * MS);
        latencies.restart();
        assert_eq!(
            (latencies.p99_ms(KEPT), latencies.last_second(KEPT)),
            (None, 1)
        );
        tokio::time::advance(2 * MS).await;
        latencies.record(2 * MS);
        assert_eq!(latencies.p99_ms(KEPT), None);
        latencies.record(MS);
        assert_eq!(
            (latencies.p99_ms(KEPT), latencies.last_second(KEPT)),
            (Some(1.0), 3)
        );
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
