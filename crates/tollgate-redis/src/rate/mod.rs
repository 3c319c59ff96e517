//! A rate limit on a server.
//!
//! Flow: [`limiter`] and [`verbs`] (the public type) -> [`state`] (the [queue](crate::queue) of a
//! rate limit) -> [`denied`] and [`prefetch`] (decisions without a call) -> [`ask`] (calls) ->
//! [`rule`] and [`reply`] (the arguments and replies of scripts).

mod ask;
mod charge;
mod denied;
mod fallback;
mod keyed;
mod limiter;
mod prefetch;
mod reply;
mod rule;
mod state;
mod token_cache;
mod verbs;

pub use self::charge::{Charge, Source};
pub(crate) use self::denied::jittered;
pub use self::fallback::Fallback;
pub use self::keyed::Keyed;
pub use self::limiter::RateLimiter;
pub(crate) use self::reply::Reply;
pub(crate) use self::rule::Rule;
pub use self::verbs::{Acquire, Cost, Reservation};
