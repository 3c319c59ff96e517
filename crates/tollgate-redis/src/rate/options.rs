//! The [`Options`] of a rate limit, and of a set: it has those that can be set there, and the defaults of the others.

use std::time::{Duration, Instant};

use tollgate::rate::Oversize;
use tollgate::{AcquireError, Algorithm, Quota};

use super::charge::Source;
use crate::fallback::{Fallback, Shares};

/// The shortest time until the next call for waiters that must wait longer, and until a retry behind
/// a queue.
pub(super) const SOON: Duration = Duration::from_millis(1);

/// The options, which are set when a limiter is created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) algorithm: Algorithm,
    pub(crate) fallback: Fallback,
    pub(crate) oversize: Oversize,
    pub(crate) jitter: Duration,
    pub(crate) max_waiters: usize,
    pub(crate) coalesce: bool,
    /// Waiters get the errors of the store.
    pub(crate) fail_waiting: bool,
    /// The maximum time for which a denial is trusted.
    pub(crate) recheck: Duration,
    /// How far ahead the fleet reserves turns.
    pub(crate) horizon: Duration,
    /// The chunk of a prefetch, and its hold time.
    pub(crate) prefetch: Option<(u64, Duration)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Gcra,
            fallback: Fallback::default(),
            oversize: Oversize::default(),
            jitter: Duration::ZERO,
            max_waiters: usize::MAX,
            coalesce: true,
            fail_waiting: false,
            recheck: Duration::from_secs(1),
            horizon: Duration::from_millis(250),
            prefetch: None,
        }
    }
}

/// Returns the wait, longer by a random time of at most `max`.
fn jittered(wait: Duration, max: Duration) -> Duration {
    wait.saturating_add(max.mul_f64(fastrand::f64()))
}

impl Options {
    /// Returns the shares of limits.
    #[track_caller]
    pub(crate) fn shares(&self, limits: impl IntoIterator<Item = (Quota, Algorithm)>) -> Shares {
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
