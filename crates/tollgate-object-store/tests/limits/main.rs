//! Tests of the crate, in one binary. Those without a socket run in paused time.

mod connector;
mod support;
