//! Object stores behind a limit that is never reached, beside object_store's own limit.
//!
//! A request over the loopback interface takes some 40 µs, so the limit of a connector is to add less
//! than 400 ns to a request that is answered at once.

use tollgate_bench::harness::{Entry, Row};
use tollgate_bench::object_store;

use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("object store: an HTTP request", || {
        Row::of(timed(
            "ThrottledConnector",
            object_store::throttled_requests(),
        ))
        .beside(timed("no limit", object_store::bare_requests()))
    }),
    ("object store: put", || {
        Row::of(timed("Throttled", object_store::throttled_puts()))
            .beside(timed("LimitStore", object_store::limit_store_puts()))
            .beside(timed("no limit", object_store::bare_puts()))
    }),
    ("object store: get", || {
        Row::of(timed("Throttled", object_store::throttled_gets()))
            .beside(timed("LimitStore", object_store::limit_store_gets()))
            .beside(timed("no limit", object_store::bare_gets()))
    }),
    ("object store: list of 100", || {
        Row::of(timed("Throttled", object_store::throttled_lists()))
            .beside(timed("LimitStore", object_store::limit_store_lists()))
            .beside(timed("no limit", object_store::bare_lists()))
    }),
];
