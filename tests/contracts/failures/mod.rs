//! How throttles fail elsewhere, and do not here: a test for each row of the table of failures, with a
//! part for each kind of throttle in which it could happen.

mod chained;
mod clocks;
mod handed_on;
mod keys;
mod left_behind;
mod line;
mod others;
mod rate_lines;
mod rates;
#[cfg(feature = "tokio")]
mod timer;
