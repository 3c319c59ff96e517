//! Rates: rate limiters, under every algorithm.

mod algorithms;
mod handles;
#[cfg(feature = "tokio")]
mod late;
mod local;
mod many;
mod quota;
mod reference;
mod restore;
mod scenarios;
mod setup;
#[path = "../support/mod.rs"]
mod support;
mod threads;
mod unlimited;
mod wakers;
