//! Uploads files to S3 under a cap on simultaneous requests, then reads every object back and compares it.
//!
//! The program starts one task per file at once. A throttle, such as a [`tollgate::Semaphore`], decides
//! when each HTTP request may start, along with optional limits per second. The `store` module puts these
//! limits below object_store. `upload` states the rules, and [`kind`] names the throttles. The other
//! modules run the job and check the limits: a server that counts requests ([`server`], [`arrivals`]) and
//! a comparison (`verify`).

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
