//! A page that shows tollgate at work: four panels of calls that this process makes and limits, and
//! routes that limit the requests of others.
//!
//! Limits, permits and queue lengths come from the throttles' own methods. Rates and percentiles are
//! computed from decisions and from the events of observers. The backend of the fourth panel is
//! simulated; everything else is real.

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
