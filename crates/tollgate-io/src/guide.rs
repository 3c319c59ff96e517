//! Limit bandwidth: bytes per second of readers, writers and bodies, separately and in total.
//!
//! A [`RateLimiter`](tollgate::RateLimiter) whose units are bytes limits every stream that is
//! [`throttled`](crate::ThrottleIoExt::throttled) with it. The limiter bounds their total bandwidth. Each call
//! waits for one chunk of at most 10 ms, first-in first-out, so streams share the limiter by call.
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
//! # Equal shares by bytes
//!
//! A stream that requests more bytes in a call gets a larger share. At 20 MB/s, a stream that reads 1 KiB at a time
//! beside one that reads 64 KiB gets 1.5 % of the bandwidth, and at 5 MB/s, where a chunk has 50 kB, 2 %. To
//! share equally by bytes, put a [`FairQueue`](tollgate::fair::FairQueue) with
//! [`Share::ByCost`](tollgate::fair::Share::ByCost) in front of the limiter, and a buffer around each stream:
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
#![doc = include_str!("guide/programs/share_by_bytes.rs")]
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> std::io::Result<()> {
//! # use std::time::Duration;
//! # use tokio::io::AsyncReadExt;
//! # use tokio::time::Instant;
//! let bandwidth = Bandwidth::new(1_000_000);
//! let begun = Instant::now();
//! let read = async |client, size| {
//!     // Stands in for a download of 1 MB.
//!     let mut stream = bandwidth.reader(client, tokio::io::repeat(7).take(1_000_000));
//!     let mut buffer = vec![0; size];
//!     while stream.read(&mut buffer).await? > 0 {}
//!     std::io::Result::Ok(begun.elapsed())
//! };
//! // Reads of 16 bytes end at the same time as those of 64 KiB; a burst of 80 ms goes to the first.
//! let (small, large) = tokio::try_join!(read(1, 16), read(2, 65_536))?;
//! assert!(small.abs_diff(large) <= Duration::from_millis(100));
//! # Ok(())
//! # }
//! ```
//!
//! - *A class of the queue is a client*: all streams of a client have one share together, so more connections get
//!   no more. [Weights](tollgate::fair::Class::weight) make shares unequal on purpose, in the same proportion.
//! - *The buffer has 1 ms of the rate, and at least 1 KiB.* A stream is back in the queue only when its task has
//!   run. In the meantime the queue serves the others, and timers fire once a millisecond, so a stream that requests
//!   less at a time loses turns. The buffer combines its reads or writes. With it, from 200 kB/s to 20 MB/s,
//!   Jain's index of up to 32 streams that move 1 byte to 64 KiB at a time is at least 0.97 over three seconds, and
//!   what is missing is the burst, which goes to the first stream. Without it, at 1 MB/s, the index of five
//!   streams is 0.87, and that of 32 is 0.61.
//! - *The share counts requested bytes.* A source that returns fewer bytes than requested, though it has more, gets a
//!   smaller share.
//!
//! # Limit connections
//!
//! A [`Listener`](crate::Listener) (feature `net`) is a listening socket whose connections hold a permit until they are
//! closed. A limit of requests does not count connections that are idle between two requests
//! ([axum#3489], [grpc-rust#2094], [hyper#2640]). The program is for axum:
//!
#![cfg_attr(feature = "net", doc = "```")]
#![cfg_attr(not(feature = "net"), doc = "```text")]
#![doc = include_str!("guide/programs/limit_connections.rs")]
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! let (slots, socket) = (Arc::new(Semaphore::new(1000)), TcpListener::bind("127.0.0.1:0").await?);
//! # let address = socket.local_addr()?;
//! let listener = Limited(Listener::new(socket, Arc::clone(&slots)));
//! let app = axum::Router::new().route("/", axum::routing::get(async || "hello"));
//! # let server =
//! tokio::spawn(axum::serve(listener, app).into_future());
//! # let mut client = TcpStream::connect(address).await?;
//! # client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await?;
//! # let mut response = String::new();
//! # client.read_to_string(&mut response).await?;
//! # assert!(response.ends_with("hello"), "{response}");
//! # server.abort();
//! # Ok(())
//! # }
//! ```
//!
//! | Server | How it takes the listener |
//! |---|---|
//! | axum | `axum::serve` takes any `axum::serve::Listener`, as above |
//! | hyper | in the loop of `accept`, `TokioIo::new(connection)` in place of the `TcpStream`: the example `hyper_connections` |
//! | tonic | its services are a router of axum, `Routes::new(service).into_axum_router()`, which `axum::serve` serves with axum's feature `http2`: the example `tonic_connections` |
//!
//! The examples are in the folder `crates/tollgate-io/examples`. tonic's own server has options that axum's lacks, such as
//! TLS. Its `serve_with_incoming` takes a stream of connections that implement `Connected`: a struct around the
//! [`Connection`](crate::Connection) that passes `AsyncRead` and `AsyncWrite` on, and `stream::poll_fn` over
//! [`poll_accept`](crate::Listener::poll_accept).
//!
//! - *At the limit*, [`accept`](crate::Listener::accept) leaves connections in the backlog of the system, where
//!   clients wait; [`accept_or_close`](crate::Listener::accept_or_close) closes them at once, so that clients
//!   try another server.
//! - *New connections per second*: a rate limiter in place of the semaphore, or [`all`](tollgate::all) of both.
//!   *For each address*: accept first, and enter a [key](tollgate::Keyed) by the address of the peer.
//! - *Shut down*: `token.run_until_cancelled(listener.accept())`, and then drop the listener; with axum,
//!   `axum::serve(listener, app).with_graceful_shutdown(token.cancelled_owned())`, which ends when all connections are
//!   closed. Otherwise `slots.wait_idle()` waits for that. Put a timeout around either.
//!
//! [axum#3489]: https://github.com/tokio-rs/axum/pull/3489
//! [grpc-rust#2094]: https://github.com/grpc/grpc-rust/issues/2094
//! [hyper#2640]: https://github.com/hyperium/hyper/issues/2640
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
