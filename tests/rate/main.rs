//! How many per time: rate limiters, by every algorithm.

mod adaptive_rate;
mod algorithms;
mod composed;
mod corrections;
mod leaky_bucket;
mod local;
mod quota;
mod rate_model;
mod scenarios;
mod setup;
#[path = "../support/mod.rs"]
mod support;
mod threads;
mod wakers;
