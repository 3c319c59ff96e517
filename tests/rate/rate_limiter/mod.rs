//! The rate limiter where the models of [`rate_model`](crate::rate_model) do not reach: late timers,
//! wakers that are foreign code, several limiters together, and texts.

mod bounded;
mod close;
mod composed;
mod foreign_charges;
mod jitter;
mod late;
mod observed;
mod panicking;
mod pauses;
mod quota;
mod reservations;
mod unlimited;
mod wakers;
