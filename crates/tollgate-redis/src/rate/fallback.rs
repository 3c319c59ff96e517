//! [`Fallback`]: the behavior of a rate limit while the store cannot decide.

use std::time::Duration;

use tollgate::{Algorithm, Oversize, Quota, RateLimiter};

use crate::error::StoreError;

/// The behavior of a rate limit while its store cannot decide.
///
/// Mistakes are errors, whatever the fallback is: a key that holds a value of another kind, keys in
/// several slots, a server that does not admit this client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallback {
    /// Returns the error for every call, of the kind [`Store`](tollgate::ErrorKind::Store).
    #[default]
    FailClosed,
    /// Admits every call.
    FailOpen,
    /// Decides in this process, with an equal share of the quota and the same algorithm. While no
    /// more processes than `share` do so, they keep the quota together, in addition to what was
    /// admitted before. A call for more than the share, but not for more than the burst, is
    /// admitted when there is no debt, and leaves a debt.
    Local {
        /// The number of shares: the number of processes.
        share: u32,
    },
}

/// Returns whether the fallback decides after this error.
pub(super) fn applies(error: StoreError) -> bool {
    error.is_outage()
        || matches!(
            error,
            StoreError::BreakerOpen | StoreError::OutOfMemory | StoreError::TryAgain
        )
}

impl Fallback {
    /// Returns the limiter that decides in this process, if there is one.
    ///
    /// # Panics
    ///
    /// Panics if the quota cannot be split into that many shares, or a share is too small for the
    /// algorithm.
    #[track_caller]
    pub(super) fn limiter(self, quota: Quota, algorithm: Algorithm) -> Option<RateLimiter> {
        let Self::Local { share } = self else {
            return None;
        };
        let limiter = RateLimiter::new(part(quota, algorithm, share));
        Some(limiter.algorithm(algorithm).oversize(Oversize::Overdraft))
    }
}

/// Returns one of `share` equal parts.
#[track_caller]
fn part(quota: Quota, algorithm: Algorithm, share: u32) -> Quota {
    let parts = u64::from(share);
    if algorithm == Algorithm::Gcra || parts == 0 {
        return quota.split(share);
    }
    // Steps return everything at once, so the count is what is divided.
    let count = quota.count() / parts;
    let most = match (algorithm, quota.max_burst()) {
        // A burst of 1 stands for the count.
        (Algorithm::TokenBucket, burst @ 2..) => burst / parts,
        _ => count,
    };
    if count > 0 && most > 1 {
        return Quota::new(count, quota.period()).burst(most);
    }
    // One unit at a time.
    let seldom = quota.period().as_nanos() * u128::from(share);
    let seldom = seldom.div_ceil(u128::from(quota.count()));
    let seldom = Duration::from_nanos(u64::try_from(seldom).unwrap_or(u64::MAX));
    Quota::new(1, seldom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_each_algorithm_divides_rate_and_burst() {
        let part =
            |algorithm, share| part(Quota::per_second(10).burst(6), algorithm, share).to_string();
        assert_eq!(part(Algorithm::Gcra, 4), "10/4s");
        assert_eq!(part(Algorithm::FixedWindow, 4), "2/s burst 2");
        assert_eq!(part(Algorithm::TokenBucket, 3), "3/s burst 2");
        assert_eq!(part(Algorithm::SlidingLog, 20), "1/2s");
        assert_eq!(part(Algorithm::TokenBucket, 4), "1/400ms");
        assert_eq!(part(Algorithm::TokenBucket, 100), "1/10s");
    }
}
