//! Services behind a throttle: who is let in, what is answered, and what is given back.
//!
//! Most is polled by hand. What needs a server runs axum, on loopback where real sockets matter, and in
//! memory where time is paused.

mod body;
#[cfg(feature = "tokio")]
mod crowd;
mod desk;
mod dropped;
mod loopback;
mod office;
mod panicking;
#[cfg(feature = "tokio")]
mod paused;
mod peers;
#[cfg(feature = "tokio")]
mod pipe;
mod ready;
mod refused;
mod server;
mod throttles;
