//! Implements the common part of readers and writers of every kind: one charged call of the inner stream, and
//! the conversion of a limiter's error.
//!
//! 1. A call for no bytes, and a call in a direction that is not limited, goes to the inner stream
//!    uncharged.
//! 2. Whatever the inner stream returns, the permit is settled before the function returns.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::throttled::{Directions, Throttled};
use tollgate::throttle::Weighted;
use tollgate::{AcquireError, ErrorKind};

impl<S, T: Weighted> Throttled<S, T> {
    /// Moves some of `wanted` bytes in this direction. `call` receives the number of bytes that it may
    /// move, calls the inner stream once, and returns the number of bytes that it has moved.
    #[inline]
    pub(super) fn poll_charged(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        direction: Directions,
        wanted: usize,
        call: impl FnOnce(Pin<&mut S>, &mut Context<'_>, usize) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let limited = *this.directions == Directions::Both || *this.directions == direction;
        if !limited || wanted == 0 {
            return call(this.inner, context, wanted);
        }
        let turn = match direction {
            Directions::Writes => this.write,
            Directions::Reads | Directions::Both => this.read,
        };
        let entered = turn.poll_enter(context, this.limiter, *this.chunk, wanted as u64);
        let (entered, units) = ready!(entered).map_err(io_error)?;
        let limit = usize::try_from(units).unwrap_or(wanted);
        let moved = call(this.inner, context, limit);
        match &moved {
            // A stream cannot have moved more bytes than it was given, so a larger number is capped.
            Poll::Ready(Ok(bytes)) => entered.settle((*bytes).min(limit) as u64),
            Poll::Ready(Err(_)) | Poll::Pending => entered.settle(0),
        }
        moved
    }

    /// Writes some of `bytes`.
    #[inline]
    pub(super) fn poll_write_charged(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>, &[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let write = |inner: Pin<&mut S>, context: &mut Context<'_>, limit: usize| {
            write(inner, context, &bytes[..limit])
        };
        self.poll_charged(context, Directions::Writes, bytes.len(), write)
    }

    /// Writes from several buffers. The bytes above the charge are cut off, and nothing is copied.
    #[inline]
    pub(super) fn poll_write_vectored_charged(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>, &[io::IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let wanted = buffers.iter().map(|buffer| buffer.len()).sum();
        let write = |inner: Pin<&mut S>, context: &mut Context<'_>, limit: usize| {
            if limit == wanted {
                return write(inner, context, buffers);
            }
            let mut cut = [io::IoSlice::new(&[]); MAX_SLICES];
            let cut = cut_at(buffers, limit, &mut cut);
            write(inner, context, cut)
        };
        self.poll_charged(context, Directions::Writes, wanted, write)
    }
}

/// The maximum number of slices of a vectored write that is cut. The next call writes the bytes of the
/// other slices.
const MAX_SLICES: usize = 16;

/// Returns the first `limit` bytes of the buffers.
fn cut_at<'a, 'b>(
    buffers: &'a [io::IoSlice<'a>],
    mut limit: usize,
    cut: &'b mut [io::IoSlice<'a>; MAX_SLICES],
) -> &'b [io::IoSlice<'a>] {
    let mut count = 0;
    // Empty buffers are skipped: a writer that uses only the first buffer would otherwise see no bytes.
    let filled = buffers.iter().filter(|buffer| !buffer.is_empty());
    for (slice, buffer) in cut.iter_mut().zip(filled) {
        let bytes = limit.min(buffer.len());
        if bytes == 0 {
            break;
        }
        *slice = io::IoSlice::new(&buffer[..bytes]);
        limit -= bytes;
        count += 1;
    }
    &cut[..count]
}

/// Converts the error of a limiter to an I/O error.
#[cold]
fn io_error(error: AcquireError) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::TimedOut => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
