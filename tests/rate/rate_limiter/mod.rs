//! The rate limiter where the models of [`rate_model`](crate::rate_model) and the tables of
//! [`scenarios`](crate::scenarios) do not reach: late timers, wakers that are foreign code, several limiters
//! together, and texts.

mod bounded;
mod composed;
mod late;
mod seen;
mod wakers;
