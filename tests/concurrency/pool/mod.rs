//! What a pool promises. Sequences of calls are rows of [`model`]; what is in other files has threads, user code
//! that panics or calls back, and futures that wait.
//!
//! What it has in common with every throttle is in `contracts/conformance/`.

mod factory;
mod items;
mod model;
mod threads;
mod tracked;
