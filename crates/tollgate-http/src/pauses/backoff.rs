//! [`Backoff`]: waits whose length nobody has named.

use std::time::Duration;

/// Waits that double from the first to the last.
#[derive(Clone, Copy)]
pub(super) struct Backoff {
    pub(super) first: Duration,
    pub(super) last: Duration,
}

impl Backoff {
    /// Returns the wait after so many waits before it.
    pub(super) fn nth(self, before: u32) -> Duration {
        let doubled = self.first.saturating_mul(1 << before.min(31));
        doubled.min(self.last)
    }
}

/// Returns a wait that is longer by a part of it.
pub(super) fn longer(wait: Duration, part: f64) -> Duration {
    let more = Duration::try_from_secs_f64(wait.as_secs_f64() * part);
    wait.saturating_add(more.unwrap_or(Duration::MAX))
}
