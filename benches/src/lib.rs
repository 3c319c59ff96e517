//! What the benchmarks share: the harness that sets contenders side by side, the peers, the floor, and the rows.
//!
//! A theme (semaphores, rate limiters, object stores) is a file of operations and of rows; a row is one operation of
//! ours and the same operation of each peer. Everything that knows how to time, to compare and to print is in
//! [`harness`].

pub mod adaptive;
pub mod bytes;
pub mod events;
pub mod fair;
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
pub mod service;
pub mod throttles;
