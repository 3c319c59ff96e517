//! Limits tokio's readers and writers.

use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::tokio::io::{AsyncRead, AsyncReadExt, AsyncSeek, AsyncWrite, ReadBuf};

use super::throttled::{Directions, Throttled};
use tollgate::throttle::Weighted;

impl<S: AsyncRead, T: Weighted> AsyncRead for Throttled<S, T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let wanted = buffer.remaining();
        let read = |inner: Pin<&mut S>, context: &mut Context<'_>, limit: usize| {
            let before = buffer.filled().len();
            // `take` leaves the uninitialized part of the buffer unchanged. A separate part of the
            // buffer would have to be cleared first, on each call.
            let polled = if limit < wanted {
                Pin::new(&mut inner.take(limit as u64)).poll_read(context, buffer)
            } else {
                inner.poll_read(context, buffer)
            };
            ready!(polled)?;
            Poll::Ready(Ok(buffer.filled().len().saturating_sub(before)))
        };
        self.poll_charged(context, Directions::Reads, wanted, read)
            .map_ok(|_| ())
    }
}

impl<S: AsyncWrite, T: Weighted> AsyncWrite for Throttled<S, T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_charged(context, bytes, S::poll_write)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored_charged(context, buffers, S::poll_write_vectored)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_shutdown(context)
    }
}

impl<S: AsyncSeek, T: Weighted> AsyncSeek for Throttled<S, T> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.project().inner.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.project().inner.poll_complete(context)
    }
}
