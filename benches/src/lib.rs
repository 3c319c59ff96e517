//! What the benchmarks share: the harness that sets contenders side by side, the peers, the floor, and the rows.
//!
//! A theme (semaphores, rate limiters, object stores) is a file of operations and of rows; a row is one operation of
//! ours and the same operation of each peer. Everything that knows how to time, to compare and to print is in
//! [`harness`].

pub mod adaptive;
pub mod bytes;
pub mod events;
pub mod floor;
pub mod harness;
pub mod http;
pub mod keyed;
pub mod line;
pub mod object_store;
pub mod pacing;
pub mod peer;
pub mod picture;
pub mod rates;
pub mod semaphore;
pub mod throttles;

use harness::Row;

/// The rows of a theme.
pub type Theme = (&'static str, fn() -> Vec<Row>);

/// All rows, whose front ends are `ratios` and `groups`.
pub const THEMES: [Theme; 10] = [
    ("semaphore", semaphore::rows),
    ("throttles", throttles::rows),
    ("rate", rates::rows),
    ("keyed", keyed::rows),
    ("object store", object_store::rows),
    ("fair", throttles::fair),
    ("http", http::rows),
    ("http origins", http::origins),
    ("adaptive", adaptive::rows),
    ("bytes", bytes::rows),
];

/// Those of them whose instructions are not counted: to prepare them takes too long, or they are not of one thread.
pub const UNCOUNTED: [&str; 3] = ["keyed", "object store", "http origins"];
