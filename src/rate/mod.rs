//! The permits, futures, options and errors of rate limits: of the [`RateLimiter`] and the
//! [`LeakyBucket`](crate::LeakyBucket), of a [`Quota`](crate::Quota) and an [`Algorithm`](crate::Algorithm).

// First, so that rustdoc lists its methods before those of the other files.
pub(crate) mod limiter;

mod acquire;
mod charge;
mod dedicated;
#[cfg(feature = "serde")]
pub mod deserialize;
mod follow;
mod hold;
pub(crate) mod leaky_bucket;
mod local;
mod locked;
mod options;
mod pause;
mod reservation;
mod runtimes;
mod shared;
mod state;
mod throttle;
mod waiters;

pub use self::acquire::Acquire;
pub use self::charge::Charge;
pub use self::hold::Hold;
pub(crate) use self::limiter::RateLimiter;
pub use self::local::LocalLimiter;
pub use self::options::{MissedTickBehavior, Oversize};
pub use self::reservation::Reservation;
pub use crate::algorithm::{AlgorithmError, LimiterState, QuotaChange, RestoreError};
pub use crate::quota::QuotaError;
