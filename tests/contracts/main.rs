//! The promises of every throttle: the conformance suite, the table of failures, auto traits,
//! panics.

mod auto_traits;
mod conformance;
mod failures;
mod panics;
mod snapshots;
#[path = "../support/mod.rs"]
mod support;
