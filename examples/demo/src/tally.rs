//! [`Tally`]: what an observed throttle reports, counted.

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
}

impl Tally {
    /// Returns how many entries have ended, one way or another.
    pub(crate) fn decided(&self) -> u64 {
        self.admitted.total() + self.refused.total() + self.abandoned.total()
    }
}

impl Observer for Tally {
    type Held = Instant;

    fn admitted(&self, _: Place, waited: Option<Duration>) -> Instant {
        self.admitted.count();
        self.waits.record(waited.unwrap_or_default());
        Instant::now()
    }

    fn refused(&self, _: Place, _: &AcquireError, _: Option<Duration>) {
        self.refused.count();
    }

    fn abandoned(&self, _: Place, waited: Duration) {
        self.abandoned.count();
        self.waits.record(waited);
    }

    fn released(&self, since: Instant) {
        self.holds.record(since.elapsed());
    }
}
