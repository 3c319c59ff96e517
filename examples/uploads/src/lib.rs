//! Uploads files to S3, never more than so many at once, reads every object back and compares.
//!
//! One task for each file is started at once, and a throttle, such as a [`tollgate::Semaphore`],
//! decides when each HTTP request may go, with limits per second beside it if they are asked for: the
//! `store` puts them below object_store. `upload` says by which rules and [`kind`] names the
//! throttles; everything else is what it takes to run it and to see that they hold: a server that counts
//! ([`server`], [`arrivals`]) and a comparison (`verify`).

pub mod app;
pub mod args;
pub mod arrivals;
pub mod error;
pub mod gauge;
pub mod grace;
pub mod kind;
mod measure;
pub mod plot;
pub mod progress;
pub mod report;
pub mod server;
pub mod source;
mod store;
mod upload;
