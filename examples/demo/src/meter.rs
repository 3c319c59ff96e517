//! [`Meter`]: a counter that knows its rate.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Counts, and remembers when it counted within the last second: what a limiter admits in any second
/// is never shown as more because a sample came late.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    total: u64,
    last_second: VecDeque<Instant>,
}

impl Meter {
    /// Counts one.
    pub(crate) fn count(&self) {
        let mut counted = self.counted();
        counted.total += 1;
        counted.last_second.push_back(Instant::now());
    }

    /// Returns how many there have been.
    pub(crate) fn total(&self) -> u64 {
        self.counted().total
    }

    /// Returns how many there have been within the last second.
    pub(crate) fn per_second(&self) -> usize {
        self.counted().last_second.len()
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        let mut counted = self.0.lock().expect("no code panics under the lock");
        let now = Instant::now();
        let times = &mut counted.last_second;
        while times.front().is_some_and(|at| *at + SECOND <= now) {
            times.pop_front();
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn per_second_counts_the_last_second_and_no_more() {
        let meter = Meter::default();
        // Ten a second, as of a limiter; looked at between two of them, at the second, and late.
        for _ in 0..20 {
            meter.count();
            tokio::time::advance(SECOND / 10).await;
        }
        assert_eq!((meter.per_second(), meter.total()), (9, 20));
        meter.count();
        assert_eq!(meter.per_second(), 10);
        tokio::time::advance(SECOND / 20).await;
        assert_eq!(meter.per_second(), 10);
        tokio::time::advance(SECOND).await;
        assert_eq!((meter.per_second(), meter.total()), (0, 21));
    }
}
