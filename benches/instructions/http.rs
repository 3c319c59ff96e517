//! A request through the layer over HTTP.

use tollgate_bench::http;

use crate::{Counted, counted};

const BY_CLIENT: &str = "http: a request by client";
const FIELDS: &str = "http: a request by client, with fields";
const SLOT: &str = "http: a request with a slot";

pub(crate) const COUNTED: &[Counted] = &[
    counted(
        BY_CLIENT,
        "layer by closure",
        || Box::new(http::by_client()),
    ),
    counted(BY_CLIENT, "tower_governor", || Box::new(http::governor())),
    counted(BY_CLIENT, "Keyed by hand", || Box::new(http::by_hand())),
    counted(BY_CLIENT, "no layer", || Box::new(http::bare())),
    counted(FIELDS, "layer, Draft11", || {
        Box::new(http::by_client_with_fields())
    }),
    counted(FIELDS, "tower_governor, x-ratelimit", || {
        Box::new(http::governor_with_fields())
    }),
    counted(SLOT, "layer", || Box::new(http::slots())),
    counted(SLOT, "tower ConcurrencyLimit", || {
        Box::new(http::tower_slots())
    }),
];
