//! A rate limit on a server.
//!
//! Flow: [`limiter`] and [`verbs`] (the public type) -> [`state`] (the [queue](crate::queue) of a
//! rate limit) -> [`prefetch`] and [`turns`] (decisions without a call) -> [`reserve`] (calls for turns) -> [`charging`]
//! (other calls, shared with sets) -> [`denied`] -> [`charge`] and [`reply`] -> [`rule`] (the arguments of scripts).

mod charge;
mod charging;
mod denied;
mod limiter;
mod options;
mod prefetch;
mod reply;
mod reserve;
mod rule;
mod state;
mod token_cache;
mod turns;
mod verbs;

pub use self::charge::{Charge, Source};
pub(crate) use self::charging::{Answered, Asked, Charging, Common, join};
pub(crate) use self::denied::{Denied, DeniedCache};
pub use self::limiter::RateLimiter;
pub(crate) use self::options::Options;
pub(crate) use self::reply::Reply;
pub(crate) use self::rule::Rule;
pub(crate) use self::turns::LATE;
pub use self::verbs::{Acquire, Cost, Reservation};
