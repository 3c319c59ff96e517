//! What the semaphore promises, a sentence a test.
//!
//! One file for each part of the vocabulary, in `semaphore/`. The combinators have files of their
//! own: `cancel.rs` and `timeout.rs`.

mod bounded;
mod close;
mod idle;
mod leaked;
mod order;
mod panicking;
mod permits;
mod resize;
mod verbs;
mod wait;
mod wakers;
