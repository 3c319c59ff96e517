//! How many per time: the [`RateLimiter`], its [local](LocalLimiter) handles and the [`LeakyBucket`], their
//! futures and options.
//!
//! What one usually needs is in the crate's root as well.

mod acquire;
mod cell;
mod charge;
mod config;
mod core;
mod leaky_bucket;
mod limiter;
mod local;
mod observe;
mod options;
mod promoted;
mod protocol;
mod refunds;
mod reservation;
mod rule;
mod verbs;

pub use self::acquire::{Acquire, AcquireOwned};
pub use self::charge::Charge;
pub use self::leaky_bucket::LeakyBucket;
pub use self::limiter::RateLimiter;
pub use self::local::{AcquireLocal, LocalLimiter};
pub use self::observe::{Calls, Snapshot, State};
pub use self::options::{Carry, MissedTick, Oversize};
pub(crate) use self::promoted::{Made, Promoted, Template};
pub use self::reservation::Reservation;
