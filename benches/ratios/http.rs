//! A request through the layer over HTTP, beside tower_governor and tower's own limit; and requests of
//! a client that waits as servers ask it to, by the number of its gates.
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
    ("http: a refusal by a new origin, 100,000 gates", || {
        Row::of(timed("full table", http::refused_by_new_origins(100_000)))
            // The limit is 5 µs, and without a layer it takes 0.15 µs.
            .at_most(30.0, timed("no layer", http::refused_without_a_layer()))
            .beside(timed("full table of 64", http::refused_by_new_origins(64)))
    }),
    ("http: a request to an origin without a pause", || {
        Row::of(timed("no gates", http::polite_beside(0)))
            .beside(timed("beside 1,024 gates", http::polite_beside(1024)))
            .beside(timed("beside 100,000 gates", http::polite_beside(100_000)))
    }),
];
