//! Counts how many uploads or requests are under way, and remembers the most there ever were.
//!
//! Two gauges sit in the embedded server, one around each PUT that it serves and one around each
//! request; another one is in the client. A slot is counted from [`Gauge::enter`] until it is
//! dropped, on every path, so a request that fails or is given up cannot be counted for ever.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// What a gauge shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Uploads under way now.
    pub in_flight: usize,
    /// The most that were ever under way at once.
    pub peak: usize,
    /// Uploads that have begun, ended ones included.
    pub begun: u64,
}

/// The number of uploads under way just after it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time since the gauge was made.
    pub at: Duration,
    /// Uploads under way from then on.
    pub in_flight: usize,
}

/// A counter of uploads under way.
#[derive(Debug)]
pub struct Gauge {
    counts: watch::Sender<Counts>,
    /// Kept only when somebody wants to plot them: they grow with the number of uploads.
    samples: Option<Mutex<Vec<Sample>>>,
    made: Instant,
}

/// One upload under way, counted until it is dropped.
#[derive(Debug)]
pub struct Slot(Arc<Gauge>);

impl Gauge {
    /// A gauge at zero, which keeps every change when `keep_samples` is true.
    pub fn new(keep_samples: bool) -> Arc<Gauge> {
        Arc::new(Gauge {
            counts: watch::Sender::new(Counts::default()),
            samples: keep_samples.then(Mutex::default),
            made: Instant::now(),
        })
    }

    /// Counts one more upload, until the slot is dropped.
    pub fn enter(self: &Arc<Self>) -> Slot {
        self.change(|counts| {
            counts.in_flight += 1;
            counts.begun += 1;
            counts.peak = counts.peak.max(counts.in_flight);
        });
        Slot(Arc::clone(self))
    }

    /// What the gauge shows now.
    pub fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Waits until the gauge shows what `wanted` asks for.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when it is dropped.
    pub async fn wait_for(&self, wanted: impl FnMut(&Counts) -> bool) {
        // An error would mean that the sender is gone, and `self` owns it.
        let _ = self.counts.subscribe().wait_for(wanted).await;
    }

    /// Every change so far, oldest first; empty unless they are kept.
    pub fn samples(&self) -> Vec<Sample> {
        self.samples.as_ref().map_or_else(Vec::new, |samples| {
            samples
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        })
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(|counts| {
            change(counts);
            // Inside, so that the samples are in the order of the changes.
            if let Some(samples) = &self.samples {
                samples
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(Sample {
                        at: self.made.elapsed(),
                        in_flight: counts.in_flight,
                    });
            }
        });
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.change(|counts| counts.in_flight -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_stays_when_slots_are_dropped() {
        let gauge = Gauge::new(true);
        let first = gauge.enter();
        let second = gauge.enter();
        drop(first);
        let third = gauge.enter();
        drop((second, third));
        assert_eq!(
            gauge.counts(),
            Counts {
                in_flight: 0,
                peak: 2,
                begun: 3
            }
        );
        let seen: Vec<_> = gauge.samples().iter().map(|s| s.in_flight).collect();
        assert_eq!(seen, [1, 2, 1, 2, 1, 0]);
    }

    #[test]
    fn no_samples_unless_asked_for() {
        let gauge = Gauge::new(false);
        drop(gauge.enter());
        assert_eq!(gauge.samples(), []);
    }
}
