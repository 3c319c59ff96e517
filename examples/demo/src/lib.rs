//! A page that shows tollgate at work: four panels of load that this process makes, and routes to
//! send requests to. Every number on the page is read from a throttle or an observer of this crate.

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
