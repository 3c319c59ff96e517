//! What only the semaphore promises, a sentence a test.
//!
//! What it has in common with every throttle is in `contracts/conformance/`; what follows from a
//! sequence of calls is a row of `model/scenarios.rs`. The combinators have files of their own,
//! `cancel.rs` and `timeout/`.

mod permits;
mod verbs;
mod wait;
mod wakers;
