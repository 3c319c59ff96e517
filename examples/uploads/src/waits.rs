//! How long the requests waited for their permits.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The waits so far.
#[derive(Debug, Default)]
pub struct Waits(Mutex<Vec<Duration>>);

impl Waits {
    /// Adds one.
    pub fn record(&self, wait: Duration) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(wait);
    }

    /// The shortest wait that at least `percent` of all did not exceed; `None` without any.
    pub fn percentile(&self, percent: usize) -> Option<Duration> {
        let mut waits = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let rank = (waits.len() * percent).div_ceil(100).max(1);
        waits.sort_unstable();
        waits.get(rank - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_ranks() {
        let waits = Waits::default();
        assert_eq!(waits.percentile(50), None);
        for n in (1..=10).rev() {
            waits.record(Duration::from_secs(n));
        }
        assert_eq!(waits.percentile(50), Some(Duration::from_secs(5)));
        assert_eq!(waits.percentile(99), Some(Duration::from_secs(10)));
        assert_eq!(waits.percentile(0), Some(Duration::from_secs(1)));
    }
}
