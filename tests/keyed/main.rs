//! The same limit for each of many keys: [`tollgate::Keyed`].

#[path = "../support/mod.rs"]
mod support;

mod gates;
mod isolation;
mod maps;
mod model;
mod reentrant;
mod restore;
mod scenarios;
