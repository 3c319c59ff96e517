//! Services behind a throttle: who is let in, what is answered, and what is given back.
//!
//! Most is polled by hand. What needs a server runs axum on loopback; what needs paused time calls the
//! service without a connection.

mod adaptive;
mod client_ip;
mod http;
mod layer;
mod leaky_bucket;
mod permits;
mod retry_after;
mod server;
mod setup;
#[path = "../../../../tests/support/mod.rs"]
mod support;
