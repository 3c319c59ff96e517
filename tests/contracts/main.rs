//! The promises of every throttle: the conformance suite, the table of failures, auto traits,
//! panics.

mod auto_traits;
mod conformance;
mod failures;
#[path = "../support/fixed.rs"]
mod fixed;
mod panics;
mod snapshots;
#[path = "../support/mod.rs"]
mod support;
