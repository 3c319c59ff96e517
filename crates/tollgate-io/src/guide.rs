//! Limit bandwidth: bytes per second of readers, writers and bodies, separately and in total.
//!
//! A [`RateLimiter`](tollgate::RateLimiter) whose units are bytes limits every stream that is
//! [`throttled`](crate::ThrottleIoExt::throttled) with it. Streams take turns in chunks of 10 ms,
//! first-in first-out, and the limiter bounds their total bandwidth.
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
//! A single client gets its own limit. Five clients share the total, first-in first-out in chunks. The burst
//! is 80 ms of the rate, and at least 2,048 bytes.
//!
//! # Choices
//!
//! - *One direction*: use [`reads_only`](crate::Throttled::reads_only) or
//!   [`writes_only`](crate::Throttled::writes_only). For a separate limit each, use
//!   `socket.throttled(&DOWN).reads_only().throttled(&UP).writes_only()`.
//! - *A copy or a proxy*: wrap its reader or its writer, and only one of the two sockets, so that bytes are
//!   charged once.
//! - *Bodies of HTTP messages* (feature `http-body`): `Body::new(body.throttled(limiter))`, on servers and
//!   clients.
//! - *Messages of a sink* (feature `stream`): `sink.limited(&limiter, |message| message.len() as u64)`.
//! - *Live changes*: [`set_quota`](tollgate::RateLimiter::set_quota) also applies to streams that already wait.
//!   [`Quota::UNLIMITED`](tollgate::Quota::UNLIMITED), or `unlimited` in a configuration, lifts the limit.
//!
//! # Traps
//!
//! - [`Quota::per_second`](tollgate::Quota::per_second) has a burst of 1, and so moves single bytes. The burst of
//!   [`bytes_per_second`](tollgate::Quota::bytes_per_second) is 80 ms of the rate and at least 2,048 bytes. For a
//!   configuration, use [`try_bytes_per_second`](tollgate::Quota::try_bytes_per_second), or the text form with
//!   its burst: `20000000/s burst 1600000`.
//! - A process that gets no processor time for longer than the burst loses bandwidth. On a machine short of
//!   processors, set the burst to a second of the rate: `Quota::bytes_per_second(n).burst(n)`. Next to 30 busy
//!   threads on each core, 64 streams then kept 0.99 of their limit, and 0.54 with a burst of 80 ms. The price:
//!   after a stall, up to a second's worth of bytes moves above the rate.
//! - Chunks are 10 ms, at least 1,024 bytes, and at most half of the [burst](tollgate::Quota::burst).
//! - The total limit is the inner one, so that a stream whose client has reached its own limit does not join
//!   the queue of the total.
//! - A wrapper outside TLS, compression or a `BufWriter` counts the bytes that the program writes. A wrapper
//!   inside counts the bytes that go to the network.
//! - A read that was dropped during its wait and is not repeated [leaves an abandoned wait](crate).
