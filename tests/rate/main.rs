//! Rates: rate limiters, under every algorithm.

mod adaptive_rate;
mod algorithms;
mod corrections;
mod handles;
mod local;
mod quota;
mod rate_model;
mod reference;
mod scenarios;
mod setup;
#[path = "../support/mod.rs"]
mod support;
mod threads;
mod unlimited;
mod wakers;
