//! Tests of the crate, in one binary. Those without a socket run in paused time.

mod connector;
mod fake_s3;
mod faults;
mod integration;
mod requests;
mod store;
mod support;
mod watched;
mod wire;
