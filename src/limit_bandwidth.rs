//! Limit bandwidth, step by step.
//!
//! A [`RateLimiter`](crate::RateLimiter) whose units are bytes limits how fast readers, writers and
//! bodies move them. [`io`](crate::io) is the reference.
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1", features = ["full"] }
//! tollgate = { version = "0.1", features = ["io"] } # and "tower" for bodies, "futures-io" for futures
//! ```
//!
//! # 1. One stream
//!
//! [`throttled`](crate::io::ThrottleIoExt::throttled) wraps a reader, a writer, or a stream that is both.
//! [`Quota::bytes_per_second`](crate::Quota::bytes_per_second) has a burst of 80 milliseconds; with
//! [`Quota::per_second`](crate::Quota::per_second), whose burst is 1, single bytes would move.
//!
//! ```
//! use std::time::Duration;
//!
//! use tokio::time::Instant;
//! use tollgate::io::ThrottleIoExt;
//! use tollgate::{Clock, Quota, RateLimiter};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> std::io::Result<()> {
//! // The clock is only for this example, whose time is paused.
//! let limiter = RateLimiter::new(Quota::bytes_per_second(1_000_000)).clock(Clock::tokio());
//! # let (file, socket) = (vec![7; 500_000], tokio::io::sink());
//! let start = Instant::now();
//! let mut socket = socket.throttled(&limiter);
//! tokio::io::copy(&mut file.as_slice(), &mut socket).await?;
//! // The first 80 ms are the burst.
//! assert_eq!(start.elapsed(), Duration::from_millis(420));
//! # Ok(())
//! # }
//! ```
//!
//! Wrap the side that you have: to limit a copy, its reader or its writer, and not both. For a proxy,
//! wrap one of the two sockets: `copy_bidirectional(&mut client.throttled(&limiter), &mut server)`
//! then charges each byte once. To split a socket, use `tokio::io::split`: each half waits on its own.
//!
//! With the feature `futures-io`, the readers and writers of futures have the same method.
//!
//! # 2. Many streams together
//!
//! A limiter in a `static`, or in an [`Arc`](std::sync::Arc), is shared by all streams that get it. They
//! take turns in chunks of 10 milliseconds (at least 1 KiB), first-in first-out, and together move what
//! the limiter allows.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use tokio::task::JoinSet;
//! use tokio::time::Instant;
//! use tollgate::io::ThrottleIoExt;
//! use tollgate::{Clock, Quota, RateLimiter};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = RateLimiter::new(Quota::bytes_per_second(1_000_000)).clock(Clock::tokio());
//! let limiter = Arc::new(limiter);
//! let start = Instant::now();
//! let mut uploads = JoinSet::new();
//! for _ in 0..5 {
//!     let mut socket = tokio::io::sink().throttled(Arc::clone(&limiter));
//!     uploads.spawn(async move { tokio::io::copy(&mut &[7; 100_000][..], &mut socket).await });
//! }
//! while let Some(upload) = uploads.join_next().await {
//!     assert_eq!(upload??, 100_000);
//! }
//! assert_eq!(start.elapsed(), Duration::from_millis(420));
//! # Ok(())
//! # }
//! ```
//!
//! # 3. Each direction, each client, and all of them
//!
//! A stream charges one limiter for both directions.
//! [`reads_only`](crate::io::Throttled::reads_only) and
//! [`writes_only`](crate::io::Throttled::writes_only) leave one out, and limits nest, so this has one for
//! each direction:
//!
//! ```
//! use tollgate::io::ThrottleIoExt;
//! use tollgate::{Quota, RateLimiter};
//!
//! static DOWN: RateLimiter = RateLimiter::new(Quota::bytes_per_second(8_000_000));
//! static UP: RateLimiter = RateLimiter::new(Quota::bytes_per_second(1_000_000));
//!
//! # let (socket, _other) = tokio::io::duplex(64);
//! let socket = socket.throttled(&DOWN).reads_only().throttled(&UP).writes_only();
//! # drop(socket);
//! ```
//!
//! A limit for each client is a key of a [`Keyed`](crate::Keyed). Nested in one for all, the slower of
//! both holds, and what moves is charged to both. The limit for all is inside, so that a stream whose client
//! has reached its own limit does not join the queue of all. A stream that has waited for the limit for all
//! holds one chunk of it while it waits for that of its client again.
//!
//! ```
//! use std::net::{IpAddr, Ipv4Addr};
//! use std::sync::Arc;
//!
//! use tokio::io::AsyncWriteExt;
//! use tollgate::io::ThrottleIoExt;
//! use tollgate::{Keyed, Quota, RateLimiter};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let everybody = Arc::new(RateLimiter::new(Quota::bytes_per_second(100_000_000)));
//! let clients = Arc::new(Keyed::rate_limiters(Quota::bytes_per_second(1_000_000)));
//!
//! let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
//! # let socket = tokio::io::sink();
//! let mut socket = socket
//!     .throttled(Arc::clone(&everybody))
//!     .throttled(Arc::clone(&clients).key_owned(client));
//! socket.write_all(b"charged to both").await?;
//! # Ok(())
//! # }
//! ```
//!
//! # 4. Another limit, live
//!
//! [`set_quota`](crate::RateLimiter::set_quota) applies to streams that wait, too.
//! [`Quota::UNLIMITED`](crate::Quota::UNLIMITED) lifts the limit and releases them, and a later quota sets
//! it again.
//!
//! ```
//! use tokio::io::AsyncWriteExt;
//! use tollgate::io::ThrottleIoExt;
//! use tollgate::{Clock, Quota, RateLimiter};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Nothing comes by time: this clock stands still.
//! let limiter = RateLimiter::new("1000/s burst 10".parse()?).clock(Clock::manual());
//! # let socket = tokio::io::sink();
//! let mut socket = socket.throttled(&limiter);
//! socket.write_all(b"ten bytes.").await?;
//! limiter.set_quota(Quota::UNLIMITED);
//! socket.write_all(&[7; 100_000]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! In a configuration file, a quota is text, whose burst has to be named: `20000000/s burst 1600000` is
//! `Quota::bytes_per_second(20_000_000)`, while `20000000/s` alone has a burst of 1 and moves single bytes. For
//! a number of bytes, there is [`Quota::try_bytes_per_second`](crate::Quota::try_bytes_per_second).
//!
//! # 5. Bodies of HTTP messages
//!
//! With the feature `tower`, the same method limits any `http_body::Body`, on a server as on a client.
//! Frames that are larger than a chunk are split, without a copy.
//!
#![cfg_attr(feature = "tower", doc = "```")]
#![cfg_attr(not(feature = "tower"), doc = "```text")]
//! use std::sync::Arc;
//!
//! use axum::Router;
//! use axum::body::Body;
//! use axum::extract::State;
//! use axum::http::Request;
//! use axum::routing::get;
//! use tollgate::io::ThrottleIoExt;
//! use tollgate::{Quota, RateLimiter};
//! # use tower::ServiceExt;
//!
//! /// A download, at what all downloads together may have.
//! async fn download(State(limiter): State<Arc<RateLimiter>>) -> Body {
//!     Body::new(Body::from("a large file").throttled(limiter))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Arc::new(RateLimiter::new(Quota::bytes_per_second(20_000_000)));
//! let app = Router::new().route("/file", get(download)).with_state(limiter);
//! # let answer = app.oneshot(Request::get("/file").body(Body::empty())?).await?;
//! # assert_eq!(axum::body::to_bytes(answer.into_body(), 100).await?, "a large file");
//! # Ok(())
//! # }
//! ```
//!
//! # 6. Messages of a sink
//!
//! With the feature `stream`, [`LimitSinkExt::limited`](crate::stream::LimitSinkExt::limited) charges
//! what a closure says that each item costs: `sink.limited(&limiter, |message| message.len() as u64)`.
//!
//! # 7. In a test
//!
//! On a [manual clock](crate::Clock::manual), a test sees exactly what was charged: it is what has moved.
//!
//! ```
//! use std::time::Duration;
//!
//! use tokio::io::AsyncReadExt;
//! use tollgate::io::ThrottleIoExt;
//! use tollgate::{Clock, Quota, RateLimiter};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let clock = Clock::manual();
//! let limiter = RateLimiter::new(Quota::per_second(1000).burst(2000)).clock(&clock);
//! let mut reader = [7; 300].as_slice().throttled(&limiter);
//! let mut buffer = [0; 500];
//! assert_eq!(reader.read(&mut buffer).await?, 300);
//! assert_eq!(limiter.available(), 2000 - 300);
//! clock.advance(Duration::from_millis(100));
//! assert_eq!(limiter.available(), 2000 - 200);
//! # Ok(())
//! # }
//! ```
//!
//! # Good to know
//!
//! - *A read waits before it looks at its source.* A source that turns out to be not ready, or at its
//!   end, gives everything back at once; the read that finds the end waits for its turn like any other.
//! - *A burst is how far streams get ahead after a pause*, all of a limiter together. A timer that is late
//!   loses no bandwidth. A process that gets no processor for longer than the burst does: beside two busy
//!   loops on two cores, a stream lost 15 % with a burst of 20 milliseconds, and 0.8 % with one of 100.
//!   Chunks stay at 10 milliseconds with any [burst](crate::Quota::burst); [`chunk`](crate::io::Throttled::chunk) makes streams take turns more often, as a smaller
//!   buffer of the caller does.
//! - *In a tokio runtime, [`Clock::tokio()`](crate::Clock::tokio) takes about half of the processor time* of
//!   the timer thread of the process. Waits then end at whole milliseconds.
//! - *A read that was dropped in its wait, and is not repeated, leaves the wait behind.* It is charged when
//!   it is granted, and moves its one chunk at the next read, however late. Drop the stream, or call
//!   [`into_inner`](crate::io::Throttled::into_inner), to give back its place and its chunk.
//! - *What is limited are the bytes that pass the wrapper.* Outside of a `BufWriter`, TLS or compression it
//!   counts what the program writes, inside of it what goes to the network.
//! - *A limiter that is closed* ends its streams with an [error](crate::io::Throttled#errors).
