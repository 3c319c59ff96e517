//! What the benchmarks share: the harness that sets contenders side by side, the peers, and the floor.
//!
//! A theme (semaphores, rate limiters, channels) is a file of rows; a row is one operation of ours and the same
//! operation of each peer. Everything that knows how to time, to compare and to print is in [`harness`].

pub mod adaptive;
pub mod adaptive_rate;
pub mod bytes;
pub mod composed;
pub mod condvar;
pub mod fair;
pub mod floor;
pub mod gate;
pub mod harness;
pub mod http;
pub mod keyed;
pub mod line;
pub mod local;
pub mod loopback;
pub mod object_store;
pub mod observed;
pub mod pacing;
pub mod peer;
pub mod picture;
pub mod rates;
pub mod ready;
pub mod service;
