//! [`Fallback`]: what to do when the store cannot decide.

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
    /// The limiter that stands in.
    ///
    /// # Panics
    ///
    /// If the quota cannot be split so, or its share is none for the algorithm.
    #[track_caller]
    pub(super) fn stand_in(self, quota: Quota, algorithm: Algorithm) -> Option<RateLimiter> {
        match self {
            Self::Local { share } => {
                let limiter = RateLimiter::new(quota.split(share)).algorithm(algorithm);
                Some(limiter.oversize(Oversize::Debt))
            }
            _ => None,
        }
    }
}
