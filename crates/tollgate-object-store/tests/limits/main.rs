//! Tests of the crate, in one binary. Those without a socket run in paused time.

mod bytes;
mod faults;
mod hold;
mod requests;
mod store;
mod support;
mod waits;
mod wire;
