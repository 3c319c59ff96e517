//! What the test files share: a real server on loopback, started and stopped by the test.

#![allow(
    dead_code,
    reason = "every test file is a crate of its own and uses a part"
)]

pub(crate) mod clock_shim;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;
pub(crate) mod proxy;
pub(crate) mod server;

/// A runtime of two threads, in real time: a server has no other.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}
