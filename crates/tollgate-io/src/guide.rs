//! Limit bandwidth: bytes per second of readers, writers and bodies, one by one and together.
//!
//! A [`RateLimiter`](tollgate::RateLimiter) whose units are bytes limits every stream that is
//! [`throttled`](crate::ThrottleIoExt::throttled) with it. Streams take turns in chunks of 10 ms,
//! first-in first-out, and together move what the limiter allows.
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! tollgate-io = { path = "../tollgate/crates/tollgate-io" } # feature "http-body" for bodies
//! ```
//!
#![cfg_attr(feature = "tokio", doc = "```no_run")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
#![doc = include_str!("guide/programs/limit_bandwidth.rs")]
//! ```
//!
//! A client alone has its own limit. Five share the total, first-in first-out in chunks. A burst is what comes in
//! 80 ms, and at least 2,048 bytes.
//!
//! # Choices
//!
//! - *One direction*: [`reads_only`](crate::Throttled::reads_only),
//!   [`writes_only`](crate::Throttled::writes_only); for a limit each,
//!   `socket.throttled(&DOWN).reads_only().throttled(&UP).writes_only()`.
//! - *A copy or a proxy*: wrap its reader or its writer, and one of the two sockets, so that bytes are
//!   charged once.
//! - *Bodies of HTTP messages* (feature `http-body`): `Body::new(body.throttled(limiter))`, on servers and
//!   clients.
//! - *Messages of a sink* (feature `stream`): `sink.limited(&limiter, |message| message.len() as u64)`.
//! - *Live*: [`set_quota`](tollgate::RateLimiter::set_quota) applies to streams that wait;
//!   [`Quota::UNLIMITED`](tollgate::Quota::UNLIMITED), or `unlimited` in a configuration, lifts the limit.
//!
//! # Traps
//!
//! - [`Quota::per_second`](tollgate::Quota::per_second) has a burst of 1, and moves single bytes. The burst of
//!   [`bytes_per_second`](tollgate::Quota::bytes_per_second) is 80 ms and at least 2,048 bytes. For a
//!   configuration, use [`try_bytes_per_second`](tollgate::Quota::try_bytes_per_second), or the text form with
//!   its burst: `20000000/s burst 1600000`.
//! - A process that gets no processor for longer than the burst loses bandwidth. Where processors are
//!   short, set the burst to what comes in a second, `Quota::bytes_per_second(n).burst(n)`: beside 30 busy
//!   threads on each core, 64 streams kept 0.99 of their limit with it, and 0.54 with 80 ms. Up to a second's
//!   worth then comes above the rate after a stall.
//! - Chunks are 10 ms, at least 1,024 bytes, and at most half of the [burst](tollgate::Quota::burst).
//! - The limit for all is the inner one, so that a stream whose client has reached its own does not join
//!   the queue of all.
//! - Outside of TLS, compression or a `BufWriter` the wrapper counts what the program writes, inside of it
//!   what goes to the network.
//! - A read that was dropped in its wait and is not repeated [leaves the wait behind](crate).
