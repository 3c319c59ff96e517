//! Limits the readers and writers of futures.

use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};

use super::throttled::{Directions, Throttled};
use tollgate::throttle::Weighted;

/// A vectored read fills the first buffer that is not empty.
impl<S: AsyncRead, T: Weighted> AsyncRead for Throttled<S, T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let wanted = buffer.len();
        let read = |inner: Pin<&mut S>, context: &mut Context<'_>, limit: usize| {
            inner.poll_read(context, &mut buffer[..limit])
        };
        self.poll_charged(context, Directions::Reads, wanted, read)
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

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_close(context)
    }
}

impl<S: AsyncSeek, T: Weighted> AsyncSeek for Throttled<S, T> {
    fn poll_seek(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        position: SeekFrom,
    ) -> Poll<io::Result<u64>> {
        self.project().inner.poll_seek(context, position)
    }
}
