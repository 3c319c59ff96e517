//! A rate limit on a server.
//!
//! Flow: [`keyed`] (a limit for each key) -> [`limiter`] and [`verbs`] (the public type) -> [`state`] (the [queue](crate::queue) of a
//! rate limit) -> [`charge`], [`prefetch`] and [`turns`] (decisions without a call) -> [`ask`] and
//! [`reserve`] (calls and replies), [`share`] (decisions without a server) -> [`rule`] (the arguments
//! of scripts).

mod ask;
mod charge;
mod keyed;
mod limiter;
mod prefetch;
mod reserve;
mod rule;
mod share;
mod state;
mod token_cache;
mod turns;
mod verbs;

pub(crate) use self::ask::Reply;
pub(crate) use self::charge::jittered;
pub use self::charge::{Charge, Source};
pub use self::keyed::Keyed;
pub use self::limiter::RateLimiter;
pub(crate) use self::rule::Rule;
pub use self::share::Fallback;
pub(crate) use self::share::LocalShare;
pub(crate) use self::turns::LATE;
pub use self::verbs::{Acquire, Cost, Reservation};
