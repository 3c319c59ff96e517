//! Bytes and streams behind a throttle.

mod bytes;
#[cfg(feature = "stream")]
mod stream;
#[path = "../../../tests/support/mod.rs"]
mod support;
