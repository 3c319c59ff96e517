//! A page that shows tollgate at work: four panels of calls that this process makes and limits, and
//! routes that limit the requests of others.
//!
//! Limits and permits are read from the throttles. Counts, rates and percentiles are computed from
//! their decisions and from the events of observers. Work is simulated by sleeping.

pub mod app;
mod http;
mod meter;
mod panels;
pub mod settings;
