//! What readers and writers of every kind have in common: one charged call of the inner stream, and
//! the error of a limiter.
//!
//! 1. A call for no bytes, and one in a direction that is not limited, goes to the inner stream
//!    uncharged.
//! 2. Whatever the inner stream returns, the permit is settled before this returns.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::throttled::{Directions, Throttled};
use tollgate::throttle::Weighted;
use tollgate::{AcquireError, ErrorKind};

impl<S, T: Weighted> Throttled<S, T> {
    /// Moves some of `wanted` bytes in this direction: `call` calls the inner stream once, with how many
    /// bytes it may move, and returns how many it has moved.
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
            // One that says that more has moved than it was given is not believed.
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

    /// Writes from several buffers. What is above the charge is cut off, and nothing is copied.
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

/// Into how many slices a vectored write that is cut goes at most. The bytes of further ones come
/// with the next call.
const MAX_SLICES: usize = 16;

/// Returns the first `limit` bytes of the buffers.
fn cut_at<'a, 'b>(
    buffers: &'a [io::IoSlice<'a>],
    mut limit: usize,
    cut: &'b mut [io::IoSlice<'a>; MAX_SLICES],
) -> &'b [io::IoSlice<'a>] {
    let mut count = 0;
    // An empty buffer takes no slice: a writer that looks at one of them only would see no bytes.
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

/// Returns the error of a limiter as one of input and output.
#[cold]
fn io_error(error: AcquireError) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::TimedOut => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
