//! Contains the code that the benchmarks share: the harness that compares contenders, the peers, the floor, and the
//! rows.
//!
//! A theme (semaphores, rate limiters, object stores) is a file of operations and of rows; a row is one operation of
//! ours and the same operation of each peer. All code for timing, comparing and printing is in [`harness`].

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
