//! Tests the crate, in one binary. Tests without a socket run in paused time.

mod bytes;
mod faults;
mod hold;
mod requests;
mod store;
mod support;
mod waits;
mod wire;
