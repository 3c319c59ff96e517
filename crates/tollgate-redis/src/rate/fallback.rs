//! [`Fallback`]: what to do when the store cannot decide.

use std::time::Duration;

use tollgate::{Algorithm, Oversize, Quota, RateLimiter};

use crate::error::StoreError;

/// What a limiter does while its store cannot decide.
///
/// It is not asked where nothing but a mistake was made: a key that holds something else, keys in
/// several slots, a server that does not let this client in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallback {
    /// Everybody gets the error, of the kind [`Store`](tollgate::ErrorKind::Store).
    #[default]
    FailClosed,
    /// Everybody is admitted.
    FailOpen,
    /// This process decides by itself, by an equal share of the quota: one of so many, by the same
    /// algorithm. As long as no more processes than that do so, they keep the quota together, but
    /// for what was admitted before. Who asks for more than a share at once, though not for more
    /// than the burst, is admitted when nothing is owed, and leaves a debt.
    Local {
        /// How many shares there are: as many as there are processes.
        share: u32,
    },
}

/// Whether somebody else may decide after this.
pub(super) fn applies(error: StoreError) -> bool {
    error.is_outage()
        || matches!(
            error,
            StoreError::BreakerOpen | StoreError::OutOfMemory | StoreError::TryAgain
        )
}

impl Fallback {
    /// By what the limiter that stands in decides, if there is one.
    ///
    /// # Panics
    ///
    /// If the quota cannot be split so.
    #[track_caller]
    pub(super) fn part(self, quota: Quota, algorithm: Algorithm) -> Option<Quota> {
        match self {
            Self::Local { share } => Some(part(quota, algorithm, share)),
            Self::FailClosed | Self::FailOpen => None,
        }
    }
}

/// The limiter that stands in.
///
/// # Panics
///
/// If the part is none for the algorithm.
#[track_caller]
pub(super) fn stand_in(part: Quota, algorithm: Algorithm) -> RateLimiter {
    let limiter = RateLimiter::new(part).algorithm(algorithm);
    limiter.oversize(Oversize::Overdraft)
}

/// One of so many equal parts.
#[track_caller]
fn part(quota: Quota, algorithm: Algorithm, share: u32) -> Quota {
    let parts = u64::from(share);
    if algorithm == Algorithm::Gcra || parts == 0 {
        return quota.split(share);
    }
    // What comes back in steps comes back all at once: so it is the count that is divided.
    let count = quota.count() / parts;
    let most = match (algorithm, quota.max_burst()) {
        // A burst of 1 says that it is the count.
        (Algorithm::TokenBucket, burst @ 2..) => burst / parts,
        _ => count,
    };
    if count > 0 && most > 1 {
        return Quota::new(count, quota.period()).burst(most);
    }
    // One at a time.
    let seldom = quota.period().as_nanos() * u128::from(share);
    let seldom = seldom.div_ceil(u128::from(quota.count()));
    let seldom = Duration::from_nanos(u64::try_from(seldom).unwrap_or(u64::MAX));
    Quota::new(1, seldom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_as_much_of_the_rate_and_of_what_goes_at_once() {
        let part =
            |algorithm, share| part(Quota::per_second(10).burst(6), algorithm, share).to_string();
        assert_eq!(part(Algorithm::Gcra, 4), "10/4s");
        assert_eq!(part(Algorithm::FixedWindow, 4), "2/s burst 2");
        assert_eq!(part(Algorithm::TokenBucket, 3), "3/s burst 2");
        assert_eq!(part(Algorithm::SlidingLog, 20), "1/2s");
        // One at once, and not the whole count.
        assert_eq!(part(Algorithm::TokenBucket, 4), "1/400ms");
        assert_eq!(part(Algorithm::TokenBucket, 100), "1/10s");
    }
}
