//! Rate limits: the [`RateLimiter`], its [local](LocalLimiter) handles and the [`LeakyBucket`],
//! their futures and options.
//!
//! The crate root re-exports the common types.

mod acquire;
mod charge;
mod costs;
mod dedicated;
mod follow;
mod hold;
mod leaky_bucket;
mod limiter;
mod local;
mod locked;
mod options;
mod pause;
mod queue;
mod runtimes;
mod shared;
mod state;
mod throttle;

pub(crate) use self::acquire::Acquire;
pub(crate) use self::acquire::Limiter;
pub use self::charge::{Charge, Reservation};
pub use self::hold::Hold;
pub use self::leaky_bucket::LeakyBucket;
pub use self::limiter::RateLimiter;
pub use self::local::LocalLimiter;
pub use self::options::{MissedTickBehavior, Oversize};
pub(crate) use self::shared::Shared;
pub use crate::algorithm::QuotaChange;
