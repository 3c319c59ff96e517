//! Services behind a throttle: who is let in, what is answered, and what is given back.
//!
//! Most is polled by hand. What needs a server runs axum on loopback; what needs paused time calls the
//! service without a connection.

mod adaptive;
mod body;
mod client_ip;
mod disconnected;
mod dropped;
mod http;
mod loopback;
mod panicking;
mod paused;
mod peers;
mod ready;
mod refused;
mod retry_after;
mod server;
mod service;
mod setup;
#[path = "../../../../tests/support/mod.rs"]
mod support;
mod throttles;
