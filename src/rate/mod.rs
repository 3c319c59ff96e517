//! Rate limits: the [`RateLimiter`], its [local](LocalLimiter) handles and the [`LeakyBucket`],
//! their futures and options.
//!
//! The crate root re-exports the common types.

mod acquire;
mod charge;
mod costs;
mod dedicated;
mod follow;
mod followed;
mod hold;
mod leaky_bucket;
mod limiter;
mod local;
mod locked;
mod options;
mod pause;
mod queue;
mod reservation;
mod runtimes;
mod shared;
mod state;
mod throttle;

pub(crate) use self::acquire::{Acquire, Limiter};
pub use self::charge::Charge;
pub use self::hold::Hold;
pub use self::leaky_bucket::LeakyBucket;
pub use self::limiter::RateLimiter;
pub use self::local::LocalLimiter;
pub use self::options::{MissedTickBehavior, Oversize};
pub use self::reservation::Reservation;
pub(crate) use self::shared::Shared;
pub use crate::algorithm::QuotaChange;
