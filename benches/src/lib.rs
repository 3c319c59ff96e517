//! The shared parts of the benchmarks: the harness that compares contenders, the peers, the floor,
//! and the rows.
//!
//! A theme (semaphores, rate limiters, object stores) is a file of operations and of rows; a row is one operation of
//! ours and the same operation of each peer. The code for timing, comparing and printing is in [`harness`].

pub mod adaptive;
pub mod bytes;
pub mod floor;
pub mod harness;
pub mod http;
pub mod keyed;
pub mod line;
pub mod object_store;
pub mod pacing;
pub mod page;
pub mod peer;
pub mod rates;
pub mod redis;
pub mod semaphore;
pub mod throttles;

use harness::Row;

/// The rows of a theme.
pub type Theme = (&'static str, fn() -> Vec<Row>);

/// All rows, for the front ends `ratios` and `groups`.
pub const THEMES: [Theme; 13] = [
    ("semaphore", semaphore::rows),
    ("throttles", throttles::rows),
    ("rate", rates::rows),
    ("waiters by rate", pacing::rows),
    ("keyed", keyed::rows),
    ("first decisions", keyed::first_decisions),
    ("object store", object_store::rows),
    ("fair", throttles::fair),
    ("http", http::rows),
    ("http origins", http::origins),
    ("adaptive", adaptive::rows),
    ("bytes", bytes::rows),
    ("redis", redis::rows),
];

/// The themes whose instructions are not counted: their preparation takes too long, or they use
/// several threads.
pub const UNCOUNTED: [&str; 3] = ["keyed", "object store", "http origins"];
