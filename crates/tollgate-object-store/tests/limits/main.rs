//! Tests of the crate, in one binary. Those without a socket run in paused time.

mod adaptive;
mod bytes;
mod fake_s3;
mod faults;
mod hold;
mod integration;
mod pages;
mod requests;
mod store;
mod support;
mod waits;
mod watched;
mod wire;
