//! The same limit for each of many keys: [`tollgate::Keyed`].

#[path = "rate_threads/audit.rs"]
mod audit;
mod support;

mod keyed {
    mod algorithms;
    mod capped;
    mod isolation;
    mod lines;
    mod model;
    mod permits;
    mod quotas;
    mod reentrant;
    mod threads;
    mod world;
}
