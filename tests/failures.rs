//! How throttles fail elsewhere, and do not here: a test for each row of the table of failures
//! that concerns concurrency, with a part for each kind of throttle in which it could happen.
//!
//! The rows on rates, keys and clocks belong to types that are not there yet.

mod support;

mod failures {
    mod chained;
    mod handed_on;
    mod left_behind;
    mod line;
    mod others;
    #[cfg(feature = "tokio")]
    mod timer;
}
