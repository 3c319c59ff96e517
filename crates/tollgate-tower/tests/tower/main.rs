//! Tests services behind a throttle: admissions, answers and returned permits.
//!
//! Most tests poll by hand. Tests that need a server run axum on loopback; tests that need paused time call the
//! service without a connection.

mod adaptive;
mod client_ip;
mod http;
mod layer;
mod leaky_bucket;
mod pauses;
mod permits;
mod server;
mod setup;
#[path = "../../../../tests/support/mod.rs"]
mod support;
