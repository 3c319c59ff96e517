//! Tests of the crate, in one binary. Those without a socket run in paused time.

mod connector;
mod fake_s3;
mod requests;
mod support;
mod wire;
