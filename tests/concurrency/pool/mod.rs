//! What a pool promises, a sentence a test.
//!
//! What it has in common with every throttle is in `contracts/conformance/`.

mod between_holders;
mod close;
mod factory;
mod items;
mod model;
mod panicking;
mod resized;
mod threads;
mod tracked;
