//! The same limit for each of many keys: [`tollgate::Keyed`].

#[path = "../support/mod.rs"]
mod support;

mod capped;
mod isolation;

mod model;
mod permits;
mod queues;
mod quotas;
mod reentrant;
#[cfg(feature = "tokio")]
mod runtimes;
mod threads;
mod world;
