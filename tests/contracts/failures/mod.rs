//! How throttles fail elsewhere, and do not here: a test for each row of the table of failures. A row
//! that could happen to any throttle names the check of the conformance suite that every one passes.

mod adaptive;
mod adaptive_rates;
mod chained;
mod clocks;
mod fair;
mod handed_on;
mod http;
mod keys;
mod left_behind;
mod nested_wakes;
mod queue;
mod rate_queues;
mod rates;
#[cfg(feature = "tokio")]
mod timer;
