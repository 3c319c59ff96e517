//! Readers, writers and bodies at a limited bandwidth: any [`Weighted`](crate::throttle::Weighted)
//! throttle limits how many bytes move per time. Needs the feature `io` for the traits of tokio,
//! `futures-io` for those of futures, or `tower` for bodies of HTTP messages.
//!
//! ```
//! use tollgate::io::ThrottleIoExt;
//! use tollgate::{Quota, RateLimiter};
//!
//! // 20 MB per second for all uploads together, with bursts of 10 milliseconds.
//! static UPLOADS: RateLimiter = RateLimiter::new(Quota::per_second(20_000_000).burst(200_000));
//!
//! # #[cfg(feature = "io")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! # let (mut file, mut socket) = (tokio::io::empty(), tokio::io::sink());
//! tokio::io::copy(&mut file, &mut socket.throttled(&UPLOADS)).await?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "io"))]
//! # fn main() {}
//! ```
//!
//! [`ThrottleIoExt`] has the method, and [`Throttled`] is what it returns. Their common behavior:
//!
//! - *Bytes are charged before they move.* A call takes a chunk from the limiter, which is no more
//!   than the call asks for, waits for it if necessary, and then calls the inner stream once. What
//!   the stream did not move is given back in the same poll. So all streams of a limiter together
//!   never move more than it allows, however many they are, and what is charged is exactly what has
//!   moved.
//! - *An idle stream holds nothing.* If the inner stream is not ready, or fails, the whole chunk is
//!   given back before the call returns.
//! - *The end of a stream, flushing, shutting down, seeking, empty buffers and trailers are free.*
//! - *Both directions charge the one limiter*, unless one is
//!   [left out](Throttled::reads_only). For a limit for each, throttle twice.
//! - *No bytes are buffered*, except the rest of a frame of a body that is larger than a chunk.

#[cfg(feature = "tower")]
mod body;
#[cfg(feature = "futures-io")]
mod futures;
mod throttled;
#[cfg(feature = "io")]
mod tokio;
#[cfg(any(feature = "futures-io", feature = "io"))]
mod transfer;

#[cfg(feature = "tower")]
pub use self::body::BodyError;
pub use self::throttled::{ThrottleIoExt, Throttled};
