//! [`Throttled`]: combines a source or a destination of bytes with its limiter. The traits that it
//! implements have a file each.
//!
//! 1. Each direction has a [`Turn`] of its own, because two tasks may poll the halves of one stream.
//! 2. Free operations, and directions that are not limited, call the inner stream directly.

use std::fmt;
use std::pin::Pin;

use pin_project::pin_project;

use crate::turn::Turn;
use tollgate::throttle::Weighted;

/// A reader, a writer or a body whose bandwidth a limiter limits.
///
/// [`ThrottleIoExt::throttled`] makes one; [the module](super) describes how it charges. It implements
/// `AsyncRead`, `AsyncWrite` and `AsyncSeek` of tokio with the feature `tokio` and of futures with the
/// feature `futures-io`, and `Body` of http-body with the feature `http-body`, each where the inner
/// stream does. It does not implement `AsyncBufRead`, because such a reader moves bytes before the caller
/// states a number: wrap this stream in a `BufReader`.
///
/// # Fairness
///
/// The limiter determines the order. Callers of a rate limiter wait first-in first-out, each for one chunk, so
/// streams share it by call, and not by byte: a stream that requests ten times as many bytes in a call gets ten
/// times the bandwidth, up to a [chunk](Self::chunk). See [equal shares by
/// bytes](crate::guide#equal-shares-by-bytes).
///
/// # Cancel safety
///
/// Dropping a read or a write that waits loses no bytes. The wait itself is part of this stream, and
/// keeps its place in the queue for the next call in the same direction, which may ask for another number
/// of bytes. If the wait is granted meanwhile, it is charged at that time, and the next call moves its bytes,
/// however late it comes: [the module](super) describes the effect on the limit. If the limiter refuses the
/// wait meanwhile, the next call returns the error. Dropping the stream, or
/// [`into_inner`](Self::into_inner), leaves the queue and gives back the grant.
///
/// # Errors
///
/// Returns the errors of the inner stream. If the limiter refuses, for example because it was closed, the
/// error is an [`io::Error`](std::io::Error) that [contains](std::io::Error::get_ref) the
/// [`AcquireError`](tollgate::AcquireError). A limiter with a bounded queue, such as with
/// [`max_waiters`](tollgate::RateLimiter::max_waiters), may also refuse in the middle of a transfer. The kind is
/// [`TimedOut`](std::io::ErrorKind::TimedOut) if the kind of the `AcquireError` is, and
/// [`Other`](std::io::ErrorKind::Other) otherwise.
///
/// # Performance
///
/// While the limiter has enough capacity, a call that moves all requested bytes costs one extra decision. A
/// call that moves fewer also takes the lock of the limiter to give the rest back. A limiter with a small
/// burst makes many small calls: [`Quota::per_second`](tollgate::Quota::per_second) has a burst of 1, and so
/// moves byte by byte. The burst of [`Quota::bytes_per_second`](tollgate::Quota::bytes_per_second) is large enough.
#[pin_project]
pub struct Throttled<S, T: Weighted> {
    #[pin]
    pub(super) inner: S,
    pub(super) limiter: T,
    pub(super) chunk: Option<u64>,
    pub(super) directions: Directions,
    #[pin]
    pub(super) read: Turn<T>,
    #[pin]
    pub(super) write: Turn<T>,
    /// The part of a body frame above its charge.
    pub(super) rest: Rest,
}

/// The part of a body frame above its charge. Only bodies can receive more bytes than they are charged for.
#[cfg(feature = "http-body")]
type Rest = bytes::Bytes;
#[cfg(not(feature = "http-body"))]
type Rest = ();

/// The directions that are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directions {
    Both,
    Reads,
    Writes,
}

impl<S, T: Weighted> Throttled<S, T> {
    /// Creates a stream that charges `limiter` for the bytes that move through `inner`, in both
    /// directions.
    pub fn new(inner: S, limiter: T) -> Self {
        Self {
            inner,
            limiter,
            chunk: None,
            directions: Directions::Both,
            read: Turn::new(),
            write: Turn::new(),
            rest: Rest::default(),
        }
    }

    /// Sets the maximum number of bytes that one call moves; the burst bounds it too. The default is
    /// 10 milliseconds of the quota, at least 1 KiB and at most half of the burst, and follows the quota. A stream
    /// that takes the whole burst loses the time between the refill and its next call.
    ///
    /// Smaller chunks shorten the waits of other streams, and require more calls.
    ///
    /// # Panics
    ///
    /// Panics if `bytes` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "tokio")]
    /// use tokio::io::AsyncReadExt;
    /// use tollgate_io::ThrottleIoExt;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// # #[cfg(feature = "tokio")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let limiter = RateLimiter::new(Quota::per_second(1000).burst(1000)).clock(Clock::manual());
    /// let mut reader = [7; 500].as_slice().throttled(&limiter).chunk(64);
    /// let mut buffer = [0; 500];
    /// assert_eq!(reader.read(&mut buffer).await?, 64);
    /// assert_eq!(limiter.snapshot().available, 936);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "tokio"))]
    /// # fn main() {}
    /// ```
    #[must_use]
    #[track_caller]
    pub fn chunk(mut self, bytes: u64) -> Self {
        assert!(bytes > 0, "a chunk has at least 1 byte, not {bytes}");
        self.chunk = Some(bytes);
        self
    }

    /// Charges reads only, and lets writes pass. It replaces an earlier
    /// [`writes_only`](Self::writes_only). The frames of a body count as reads, including those of a request
    /// that is sent.
    ///
    /// # Examples
    ///
    /// A limit for each direction:
    ///
    /// ```
    /// use tollgate_io::ThrottleIoExt;
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// let down = RateLimiter::new(Quota::bytes_per_second(8_000_000));
    /// let up = RateLimiter::new(Quota::bytes_per_second(1_000_000));
    /// # let stream = ();
    /// let stream = stream.throttled(&down).reads_only().throttled(&up).writes_only();
    /// # drop(stream);
    /// ```
    #[must_use]
    pub fn reads_only(mut self) -> Self {
        self.directions = Directions::Reads;
        self
    }

    /// Charges writes only, and lets reads pass, including all frames of bodies. It replaces an
    /// earlier [`reads_only`](Self::reads_only).
    #[must_use]
    pub fn writes_only(mut self) -> Self {
        self.directions = Directions::Writes;
        self
    }

    /// Returns the limiter.
    pub fn limiter(&self) -> &T {
        &self.limiter
    }

    /// Returns the inner stream.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner stream. Bytes that move through it directly are not charged.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner stream, pinned.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().inner
    }

    /// Returns the inner stream. A wait leaves the queue and gives back its grant. The rest
    /// of a large body frame is lost.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: fmt::Debug, T: Weighted> fmt::Debug for Throttled<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttled")
            .field("inner", &self.inner)
            .field("directions", &self.directions)
            .field("read_waits", &self.read.is_waiting())
            .field("write_waits", &self.write.is_waiting())
            .finish_non_exhaustive()
    }
}

/// Adds [`throttled`](Self::throttled) to readers, writers and bodies.
pub trait ThrottleIoExt: Sized {
    /// Charges `limiter` for the bytes that move through this stream, before they move. See [the
    /// module](super).
    ///
    /// Every type has this method. The returned value is a reader, a writer or a body if this type is one
    /// and the corresponding feature is on: `tokio`, `futures-io` or `http-body`. For sinks, use
    /// `stream::LimitSinkExt`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "tokio")]
    /// use tokio::io::AsyncReadExt;
    /// use tollgate_io::ThrottleIoExt;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// # #[cfg(feature = "tokio")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let limiter = RateLimiter::new(Quota::per_second(1000).burst(1000)).clock(Clock::manual());
    /// let mut source = b"charged before it moves".as_slice().throttled(&limiter);
    /// let mut buffer = [0; 64];
    /// assert_eq!(source.read(&mut buffer).await?, 23);
    /// assert_eq!(limiter.snapshot().available, 1000 - 23);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "tokio"))]
    /// # fn main() {}
    /// ```
    fn throttled<T: Weighted>(self, limiter: T) -> Throttled<Self, T> {
        Throttled::new(self, limiter)
    }
}

impl<S> ThrottleIoExt for S {}
