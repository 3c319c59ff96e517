//! How long the requests waited until they could go.
//!
//! A request waits in the job and then below the store, where it is let in. The task carries the
//! moment at which it asked from one to the other.

use std::cell::Cell;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

tokio::task_local! {
    /// When the task asked, until its request has been let in.
    static ASKED: Cell<Option<Instant>>;
}

/// Runs a request that has been waiting since it was asked for. It counts once, however often it is
/// repeated.
pub(crate) async fn waiting_since<F: Future>(asked: Instant, request: F) -> F::Output {
    ASKED.scope(Cell::new(Some(asked)), request).await
}

/// The waits so far.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Vec<Duration>>);

impl Waits {
    /// Adds one.
    fn record(&self, wait: Duration) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(wait);
    }

    /// Adds the wait of the task's request, which is let in now, if it is one that counts.
    pub(crate) fn admitted(&self) {
        if let Ok(Some(asked)) = ASKED.try_with(Cell::take) {
            self.record(asked.elapsed());
        }
    }

    /// The shortest wait that at least `percent` of all did not exceed; `None` without any.
    pub(crate) fn percentile(&self, percent: usize) -> Option<Duration> {
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

    #[tokio::test]
    async fn admitted_twice_counts_the_first_time() {
        let waits = Waits::default();
        waits.admitted();
        assert_eq!(waits.percentile(50), None, "nobody asked");
        let request = async {
            waits.admitted();
            waits.admitted();
        };
        waiting_since(Instant::now(), request).await;
        assert_eq!(waits.0.lock().unwrap().len(), 1);
    }

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
