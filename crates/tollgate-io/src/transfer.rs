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
use crate::turn::Turn;
use tollgate::throttle::Weighted;
use tollgate::{AcquireError, ErrorKind};

impl<S, T: Weighted> Throttled<S, T> {
    /// Reads some of `wanted` bytes: `read` gets the inner stream and how many bytes it may read, and
    /// returns how many it has read.
    #[inline]
    pub(super) fn poll_read_charged(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        wanted: usize,
        read: impl FnOnce(Pin<&mut S>, &mut Context<'_>, usize) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let limited = *this.directions != Directions::Writes;
        let turn = limited.then_some(this.read);
        let read = |context: &mut Context<'_>, limit| read(this.inner, context, limit);
        poll_charged(turn, context, this.limiter, *this.chunk, wanted, read)
    }

    /// Writes some of `bytes`.
    #[inline]
    pub(super) fn poll_write_charged(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>, &[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.poll_write_some(context, bytes.len(), |inner, context, limit| {
            write(inner, context, &bytes[..limit])
        })
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
        self.poll_write_some(context, wanted, |inner, context, limit| {
            if limit == wanted {
                return write(inner, context, buffers);
            }
            let mut cut = [io::IoSlice::new(&[]); MAX_SLICES];
            let cut = cut_at(buffers, limit, &mut cut);
            write(inner, context, cut)
        })
    }

    /// Writes some of `wanted` bytes. `write` is like that of a read.
    #[inline]
    fn poll_write_some(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        wanted: usize,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>, usize) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let limited = *this.directions != Directions::Reads;
        let turn = limited.then_some(this.write);
        let write = |context: &mut Context<'_>, limit| write(this.inner, context, limit);
        poll_charged(turn, context, this.limiter, *this.chunk, wanted, write)
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

/// Waits for the turn, calls `call` once with the number of bytes that it may move, and settles to
/// the number that it has moved. Without a turn, or for no bytes, it only makes the call.
#[inline]
fn poll_charged<T: Weighted>(
    turn: Option<Pin<&mut Turn<T>>>,
    context: &mut Context<'_>,
    limiter: &T,
    chunk: Option<u64>,
    wanted: usize,
    call: impl FnOnce(&mut Context<'_>, usize) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<usize>> {
    let Some(turn) = turn.filter(|_| wanted > 0) else {
        return call(context, wanted);
    };
    let (entered, units) = match ready!(turn.poll_enter(context, limiter, chunk, wanted as u64)) {
        Ok(entered) => entered,
        Err(error) => return Poll::Ready(Err(io_error(error))),
    };
    let limit = usize::try_from(units).unwrap_or(wanted);
    let moved = call(context, limit);
    match &moved {
        // One that says that more has moved than it was given is not believed.
        Poll::Ready(Ok(bytes)) => entered.settle((*bytes).min(limit) as u64),
        Poll::Ready(Err(_)) | Poll::Pending => entered.settle(0),
    }
    moved
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
