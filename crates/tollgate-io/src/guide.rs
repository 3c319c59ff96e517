//! Limit bandwidth: bytes per second of readers, writers and bodies, one by one and together.
//!
//! A [`RateLimiter`](tollgate::RateLimiter) whose units are bytes limits every stream that is
//! [`throttled`](crate::ThrottleIoExt::throttled) with it. Streams take turns in chunks of 10 ms,
//! first-in first-out, and together move what the limiter allows.
//!
//! ```toml
//! [dependencies]
//! # `test-util` is for the paused time of this program.
//! tokio = { version = "1.49", features = ["full", "test-util"] }
//! tollgate = { path = "../tollgate" }
//! tollgate-io = { path = "../tollgate/crates/tollgate-io" } # feature "http-body" for bodies
//! ```
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use tokio::task::JoinSet;
//! use tokio::time::Instant;
//! use tollgate_io::ThrottleIoExt;
//! use tollgate::{Clock, Keyed, Quota, RateLimiter};
//!
//! struct Limits {
//!     clients: Arc<Keyed<u32, RateLimiter>>,
//!     total: Arc<RateLimiter>,
//! }
//!
//! /// Sends 100 kB to a client. Both limits hold, and what moves is charged to both.
//! async fn send(client: u32, limits: Arc<Limits>) -> std::io::Result<()> {
//!     let socket = tokio::io::sink(); // In place of a connection.
//!     let mut socket = socket
//!         .throttled(Arc::clone(&limits.total))
//!         .throttled(Arc::clone(&limits.clients).key_owned(client));
//!     tokio::io::copy(&mut [7; 100_000].as_slice(), &mut socket).await?;
//!     Ok(())
//! }
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // The clock is for the paused time of this program. A burst is 80 ms,
//!     // and at least 2,048 bytes.
//!     let each = RateLimiter::new(Quota::bytes_per_second(200_000)).clock(Clock::tokio());
//!     let clients = Keyed::new(each);
//!     let total = RateLimiter::new(Quota::bytes_per_second(500_000)).clock(Clock::tokio());
//!     let limits = Arc::new(Limits { clients: Arc::new(clients), total: Arc::new(total) });
//!
//!     // One client alone has its own limit: 100 kB at 200 kB/s, minus the burst.
//!     let start = Instant::now();
//!     send(0, Arc::clone(&limits)).await?;
//!     assert_eq!(start.elapsed(), Duration::from_millis(500 - 80));
//!
//!     // Five share what there is: 500 kB at 500 kB/s. A burst comes back first.
//!     tokio::time::sleep(Duration::from_millis(80)).await;
//!     let (start, mut sends) = (Instant::now(), JoinSet::new());
//!     for client in 1..=5 {
//!         sends.spawn(send(client, Arc::clone(&limits)));
//!     }
//!     sends.join_all().await.into_iter().collect::<Result<(), _>>()?;
//!     assert_eq!(start.elapsed(), Duration::from_millis(1000 - 80));
//!     Ok(())
//! }
//! ```
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
