//! A page that shows tollgate at work: four panels of load that this process makes, and routes to
//! send requests to. The numbers on the page come from
//! throttles of this crate, and rates and percentiles from what their observers report.

pub mod app;
pub mod args;
pub mod check;
mod events;
mod http;
mod latencies;
mod meter;
mod pace;
mod panels;
pub mod settings;
mod span;
mod tally;
