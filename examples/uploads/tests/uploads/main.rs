//! The built program, run against servers that count, refuse and stall.

#[cfg(unix)]
mod cancel;
#[macro_use]
mod common;
mod failures;
mod rates;
mod slow_down;
mod throttles;
mod upload;
