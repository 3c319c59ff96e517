//! How many per time: rate limiters, by every algorithm.

mod adaptive_rate;
mod algorithms;
mod audit;
mod beside;
mod follow;
mod holds;
mod leaky_bucket;
mod local;
mod quota;
mod rate_limiter;
mod rate_model;
mod setup;
mod sliding;
#[path = "../support/mod.rs"]
mod support;
mod threads;
