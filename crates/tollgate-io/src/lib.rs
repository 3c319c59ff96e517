//! Limits the bandwidth of readers, writers and bodies: any [`Weighted`](tollgate::throttle::Weighted)
//! throttle of [tollgate] limits the number of bytes that move per time. [`stream`] does the same for the items
//! of streams and sinks, and makes streams of rate limiters.
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use tollgate_io::ThrottleIoExt;
//! use tollgate::{Quota, RateLimiter};
//!
//! // 20 MB per second for all uploads together.
//! static UPLOADS: RateLimiter = RateLimiter::new(Quota::bytes_per_second(20_000_000));
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! # let (mut file, mut socket) = (tokio::io::empty(), tokio::io::sink());
//! tokio::io::copy(&mut file, &mut socket.throttled(&UPLOADS)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`ThrottleIoExt`] has the method, and [`Throttled`] is its return type. The common behavior of all adapters:
//!
//! - *Bytes are charged before they move.* A call takes a chunk from the limiter, which is no more
//!   than the call asks for, waits for it if necessary, and then calls the inner stream once. The bytes
//!   that did not move are given back in the same poll, so the charge is exactly the number of bytes
//!   that moved. Streams that are polled when they are woken use the full limit together, whatever
//!   their number.
//! - *Streams share a limiter by call, and not by byte.* Each call waits for one chunk, first-in first-out, so a
//!   stream gets a share in proportion to the bytes that it requests in a call. At 20 MB/s, reads of 1 KiB beside
//!   reads of 64 KiB get 1.5 % of the bandwidth. The guide has a program for [equal shares by
//!   bytes](guide#equal-shares-by-bytes).
//! - *A process without processor time loses the bandwidth above the burst.* On a machine that is short
//!   of processors, set a [burst of a second](tollgate::Quota::bytes_per_second).
//! - *A wait is charged when it is granted, and its bytes move at the next call in that direction, however
//!   late.* A read that is dropped during its wait and not repeated abandons the wait. From then on, each stream
//!   with an abandoned wait can move at most one chunk above the limit. To give up the place
//!   in the queue and the grant, drop the adapter or call [`into_inner`](Throttled::into_inner).
//! - *An idle stream holds nothing, except for an abandoned wait.* If the inner stream is not
//!   ready, or fails, the whole chunk is given back before the call returns. An abandoned wait of a
//!   semaphore, or of a class of a [`FairQueue`](tollgate::fair::FairQueue) with a `max_concurrency`, may hold
//!   its permits until the next call or the drop.
//! - *Flushing, shutting down, seeking and empty buffers are free.* The end of a stream and trailers
//!   cost nothing either, but they are found only when it is the stream's turn.
//! - *A stream that is polled without being ready takes part in the queue.* It waits for its turn, has
//!   nothing to move, and gives the turn back. While the limiter is busy, two reads of idle streams in one
//!   `select!` therefore wake their task repeatedly; give each read a task of its own.
//! - *Both directions charge the same limiter*, unless one is
//!   [left out](Throttled::reads_only). For a separate limit each, throttle twice.
//! - *No bytes are buffered*, except the rest of a body frame that is larger than a chunk.
//!
//! **[The guide](guide) has a program** with a limit for each client and one for all.
//!
//! # Features
//!
//! - `tokio` (default): the readers and writers of tokio.
//! - `stream` (default): the module `stream`.
//! - `futures-io`: the readers and writers of futures.
//! - `http-body`: bodies of HTTP messages.
//! - `net`: a [`Listener`], whose connections hold a permit until they are closed.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// Tests the example of the README.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "http-body")]
mod body;
#[cfg(feature = "futures-io")]
mod futures;
pub mod guide;
#[cfg(feature = "net")]
mod listener;
#[cfg(feature = "stream")]
pub mod stream;
mod throttled;
#[cfg(feature = "tokio")]
mod tokio;
#[cfg(any(feature = "futures-io", feature = "tokio"))]
mod transfer;
#[cfg_attr(
    not(any(
        feature = "futures-io",
        feature = "http-body",
        feature = "stream",
        feature = "tokio"
    )),
    allow(dead_code, reason = "each feature adds an adapter that takes turns")
)]
mod turn;

#[cfg(feature = "net")]
pub use self::listener::{Accept, Connection, Listener};
pub use self::throttled::{ThrottleIoExt, Throttled};
