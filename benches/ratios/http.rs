//! A request through the layer over HTTP, beside tower_governor and tower's own limit.
//!
//! The request and the answer are created for each call, which is in all columns, and in `no layer`
//! alone.

use tollgate_bench::harness::{Entry, Row};
use tollgate_bench::http;

use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("http: a request by client", || {
        Row::of(timed("layer by closure", http::by_client()))
            .at_most(0.70, timed("tower_governor", http::governor()))
            .beside(timed("Keyed by hand", http::by_hand()))
            .beside(timed("no layer", http::bare()))
    }),
    ("http: a request by client, with fields", || {
        Row::of(timed("layer, Draft11", http::by_client_with_fields()))
            .at_most(
                0.70,
                timed("tower_governor, x-ratelimit", http::governor_with_fields()),
            )
            .beside(timed("layer, Legacy", http::by_client_with_legacy_fields()))
            .beside(timed("layer without fields", http::by_client()))
    }),
    ("http: a rejected request", || {
        Row::of(timed("layer by closure", http::rejected_by_client()))
            .at_most(0.70, timed("tower_governor", http::rejected_by_governor()))
    }),
    ("http: a request with a slot", || {
        Row::of(timed("layer", http::slots()))
            .beside(timed("tower ConcurrencyLimit", http::tower_slots()))
            .beside(timed("no layer", http::bare()))
    }),
];
