//! The same limit for each of many keys: [`tollgate::Keyed`].

#[path = "../support/mod.rs"]
mod support;

mod algorithms;
mod capped;
mod isolation;
mod lines;
mod model;
mod permits;
mod quotas;
mod reentrant;
mod threads;
mod world;
