//! Uploads files to S3, never more than so many at once, reads every object back and compares.
//!
//! One task for each file is started at once, and a throttle, such as a [`tollgate::Semaphore`],
//! decides when each may go on; [`rates`] are beside it if they are asked for. [`upload`] says by which rules and [`kind`] names the throttles;
//! everything else is what it takes to run it and to see that they hold: a server that counts
//! ([`server`], [`observed`], [`arrivals`]) and a comparison (`verify`).

pub mod app;
pub mod args;
pub mod arrivals;
pub mod bandwidth;
pub mod condvar;
pub mod error;
pub mod failure;
pub mod gauge;
pub mod generated;
pub mod kind;
mod multipart;
pub mod observed;
pub mod plot;
pub mod progress;
pub mod rates;
pub mod report;
pub mod server;
pub mod source;
pub mod store;
pub mod upload;
mod verify;
pub mod waits;
