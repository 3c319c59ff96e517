//! The [`Options`] of a rate limit.

use std::time::{Duration, Instant};

use tollgate::rate::Oversize;
use tollgate::{AcquireError, Algorithm, Quota};

use super::charge::Source;
use crate::fallback::{Fallback, Shares};

/// The options, which are set when a limiter is created.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) algorithm: Algorithm,
    pub(super) fallback: Fallback,
    pub(super) oversize: Oversize,
    pub(super) jitter: Duration,
    pub(super) max_waiters: usize,
    pub(super) coalesce: bool,
    /// Waiters get the errors of the store.
    pub(super) fail_waiting: bool,
    /// The maximum time for which a denial is trusted.
    pub(super) recheck: Duration,
    /// How far ahead the fleet reserves turns.
    pub(super) horizon: Duration,
    /// The chunk of a prefetch, and its hold time.
    pub(super) prefetch: Option<(u64, Duration)>,
}

/// Returns the wait, longer by a random time of at most `max`.
pub(crate) fn jittered(wait: Duration, max: Duration) -> Duration {
    wait.saturating_add(max.mul_f64(fastrand::f64()))
}

impl Options {
    /// Returns the share of a quota.
    #[track_caller]
    pub(super) fn shares(&self, quota: Quota) -> Shares {
        let limits = [(quota, self.algorithm)];
        Shares::new(self.fallback, self.fail_waiting, limits)
    }

    /// Returns a denial by this source. Its wait is longer by at most the jitter.
    pub(super) fn denial(&self, source: Source, wait: Duration) -> AcquireError {
        source.limited(jittered(wait, self.jitter))
    }

    /// Adds a random delay of at most the jitter, so that the processes of a fleet do not all call
    /// at once.
    pub(super) fn jittered(&self, time: Instant) -> Instant {
        let later = jittered(Duration::ZERO, self.jitter);
        time.checked_add(later).unwrap_or(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jittered_of_any_wait_is_not_shorter() {
        let (wait, most) = (Duration::from_millis(20), Duration::from_millis(5));
        for _ in 0..1000 {
            assert!((wait..=wait + most).contains(&jittered(wait, most)));
        }
        assert_eq!(jittered(wait, Duration::ZERO), wait);
        assert_eq!(jittered(Duration::MAX, most), Duration::MAX);
    }
}
