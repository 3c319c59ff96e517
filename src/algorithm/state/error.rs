//! [`RestoreError`]: the reason why a state cannot be used.

use std::fmt;

use crate::algorithm::Algorithm;
use crate::quota::Quota;

/// The reason why a [`LimiterState`](super::LimiterState) cannot be read, or cannot be used with an algorithm and a
/// quota.
///
/// # Examples
///
/// ```
/// use tollgate::rate::{LimiterState, RestoreError};
/// use tollgate::{Algorithm, Quota, RateLimiter};
///
/// let error = LimiterState::from_bytes(b"no state").unwrap_err();
/// assert_eq!(error, RestoreError::Garbage);
///
/// let state = RateLimiter::new(Quota::per_second(5)).state();
/// let error = state.check(Algorithm::FixedWindow, Quota::per_second(5)).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the state is one of gcra, and the limiter uses fixed-window",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError {
    /// It is no state, or not a whole one, or one with values that no limiter has.
    Garbage,
    /// It was written by a version of this crate with another form of states.
    Version {
        /// The version of its form.
        found: u16,
    },
    /// It is the state of another algorithm.
    Algorithm {
        /// The algorithm of the state.
        found: Algorithm,
        /// The algorithm of the limiter.
        expected: Algorithm,
    },
    /// Its windows or batches have another length: only for a state that several limiters
    /// [use](super::LimiterState::take).
    Period {
        /// The quota of the state.
        found: Quota,
        /// The quota of the limiter.
        expected: Quota,
    },
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Garbage => f.write_str("it is no state of a limiter"),
            Self::Version { found } => {
                let known = super::VERSION;
                write!(
                    f,
                    "the state has the form of version {found}, and this crate knows version {known}"
                )
            }
            Self::Algorithm { found, expected } => {
                write!(
                    f,
                    "the state is one of {found}, and the limiter uses {expected}"
                )
            }
            Self::Period { found, expected } => write!(
                f,
                "the state has windows of {found}, and the limiter has windows of {expected}"
            ),
        }
    }
}

impl std::error::Error for RestoreError {}
