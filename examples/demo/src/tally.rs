//! [`Tally`]: what an observed throttle reports, counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tollgate::AcquireError;
use tollgate::observe::{Observer, Place};

use crate::latencies::Latencies;
use crate::meter::Meter;

/// Counts the entries of a throttle, and measures how long they wait and hold their permits.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) admitted: Meter,
    pub(crate) refused: Meter,
    pub(crate) abandoned: Meter,
    /// The waits of entries that were admitted or abandoned.
    pub(crate) waits: Latencies,
    /// How long permits were held.
    pub(crate) holds: Latencies,
    in_use: AtomicU64,
}

impl Tally {
    /// Returns how many permits are held.
    pub(crate) fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Returns how many entries have ended, one way or another.
    pub(crate) fn decided(&self) -> u64 {
        self.admitted.total() + self.refused.total() + self.abandoned.total()
    }
}

impl Observer for Tally {
    type Held = Instant;

    fn admitted(&self, _: Place, waited: Option<Duration>) -> Instant {
        self.admitted.add(1);
        self.waits.record(waited.unwrap_or_default());
        self.in_use.fetch_add(1, Ordering::Relaxed);
        Instant::now()
    }

    fn refused(&self, _: Place, _: &AcquireError, _: Option<Duration>) {
        self.refused.add(1);
    }

    fn abandoned(&self, _: Place, waited: Duration) {
        self.abandoned.add(1);
        self.waits.record(waited);
    }

    fn released(&self, since: Instant) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
        self.holds.record(since.elapsed());
    }

    fn undone(&self, _: Instant) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}
