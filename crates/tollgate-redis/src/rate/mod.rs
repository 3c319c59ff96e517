//! A rate limit on a server.

mod acquire;
mod ahead;
mod charge;
mod core;
mod driver;
mod fallback;
mod keyed;
mod limiter;
mod line;
mod purse;
mod reply;
mod reservation;
mod rule;
mod seat;
mod throttle;
mod verbs;

pub use self::acquire::Acquire;
pub use self::charge::{Charge, Source};
pub use self::fallback::Fallback;
pub use self::keyed::Keyed;
pub use self::limiter::RateLimiter;
pub use self::reservation::Reservation;
pub(crate) use self::rule::Rule;
