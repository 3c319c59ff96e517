//! Readers and writers in memory at a limited bandwidth.
//!
//! A source that is always ready copies from a block, and a destination copies into one, so the cost of
//! a limit shows beside the least work of a stream.

use std::convert::Infallible;
use std::hint::black_box;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_speed_limit::Limiter;
use async_speed_limit::clock::StandardClock;
use axum::body::Bytes;
use futures::executor::block_on;
use http_body::{Body, Frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tollgate::{Keyed, Quota, RateLimiter};
use tollgate_io::{ThrottleIoExt, Throttled};

use crate::harness::{Row, alone};
use crate::rows;

/// The size of large blocks.
pub const LARGE: usize = 64 * 1024;

/// The size of small blocks.
const SMALL: usize = 1024;

/// Compares reads and writes in memory at a limited bandwidth with bare ones and with
/// async-speed-limit's.
pub fn rows() -> Vec<Row> {
    rows! {
        alone "bytes: read 64 KiB, unlimited"
            {"Throttled" => || reads(LARGE, unlimited), "bare": 1.02 => || reads(LARGE, bare),
             "async-speed-limit" => || reads(LARGE, speed_unlimited)};
        alone "bytes: read 64 KiB, a limit that never binds"
            {"Throttled" => || reads(LARGE, never_binding), "bare": 1.053 => || reads(LARGE, bare),
             "async-speed-limit" => || reads(LARGE, speed_never_binding)};
        alone "bytes: write 64 KiB, a limit that never binds"
            {"Throttled" => || writes(LARGE, never_binding), "bare": 1.053 => || writes(LARGE, bare),
             "async-speed-limit" => || writes(LARGE, speed_never_binding)};
        alone "bytes: read 1 KiB, unlimited"
            {"Throttled" => || reads(SMALL, unlimited), "bare" => || reads(SMALL, bare),
             "async-speed-limit" => || reads(SMALL, speed_unlimited)};
        alone "bytes: read 1 KiB, a limit that never binds"
            {"Throttled" => || reads(SMALL, never_binding), "bare" => || reads(SMALL, bare),
             "async-speed-limit" => || reads(SMALL, speed_never_binding),
             "Throttled by key" => || reads(SMALL, never_binding_key)};
        alone "bytes: write 1 KiB"
            {"Throttled" => || writes(SMALL, never_binding), "bare" => || writes(SMALL, bare)};
        alone "bytes: frame of a body"
            {"Throttled" => || frames(never_binding), "bare" => || frames(bare)};
    }
}

/// A source and a destination of blocks that are always ready.
pub struct Blocks(Box<[u8]>);

impl Blocks {
    /// Blocks of this size.
    pub fn of(size: usize) -> Blocks {
        Blocks(vec![7; size].into())
    }
}

impl AsyncRead for Blocks {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let size = buffer.remaining().min(self.0.len());
        buffer.put_slice(&self.0[..size]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Blocks {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let size = bytes.len().min(self.0.len());
        self.0[..size].copy_from_slice(&bytes[..size]);
        Poll::Ready(Ok(size))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Body for Blocks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[7; SMALL])))))
    }
}

/// Reads of blocks of this size.
fn reads<R: AsyncRead + Unpin + 'static>(
    size: usize,
    limit: impl FnOnce(Blocks) -> R,
) -> impl FnMut(u64) + 'static {
    let mut reader = limit(Blocks::of(size));
    let mut buffer = vec![0; size];
    move |times| {
        block_on(async {
            for _ in 0..times {
                let read = reader.read(black_box(&mut buffer)).await;
                assert_eq!(read.expect("blocks never fail"), size, "a short read");
            }
        });
    }
}

/// Writes of blocks of this size.
fn writes<W: AsyncWrite + Unpin + 'static>(
    size: usize,
    limit: impl FnOnce(Blocks) -> W,
) -> impl FnMut(u64) + 'static {
    let mut writer = limit(Blocks::of(size));
    let buffer = vec![7; size];
    move |times| {
        block_on(async {
            for _ in 0..times {
                let written = writer.write(black_box(&buffer)).await;
                assert_eq!(written.expect("blocks never fail"), size, "a short write");
            }
        });
    }
}

/// Frames of a body of [`SMALL`] blocks.
fn frames<B: Body<Data = Bytes> + Unpin + 'static>(
    limit: impl FnOnce(Blocks) -> B,
) -> impl FnMut(u64) + 'static {
    let mut body = limit(Blocks::of(SMALL));
    move |times| {
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..times {
            let polled = Pin::new(&mut body).poll_frame(&mut context);
            assert!(matches!(polled, Poll::Ready(Some(Ok(_)))), "no frame");
            drop(black_box(polled));
        }
    }
}

/// No limit.
fn bare(blocks: Blocks) -> Blocks {
    blocks
}

/// A limiter that has no limit now, but may get one.
fn unlimited(blocks: Blocks) -> Throttled<Blocks, Arc<RateLimiter>> {
    blocks.throttled(Arc::new(RateLimiter::new(Quota::UNLIMITED)))
}

/// A limiter that decides about each call, with enough for the whole benchmark.
fn never_binding(blocks: Blocks) -> Throttled<Blocks, Arc<RateLimiter>> {
    let quota = Quota::per_second(1_000_000_000).burst(10_000_000_000_000_000);
    blocks.throttled(Arc::new(RateLimiter::new(quota)))
}

/// The same for a key of a map.
fn never_binding_key(blocks: Blocks) -> impl AsyncRead + Unpin + 'static {
    let quota = Quota::per_second(1_000_000_000).burst(10_000_000_000_000_000);
    blocks.throttled(Arc::new(Keyed::<u64, _>::rate_limiters(quota)).key_owned(7))
}

/// async-speed-limit's, without a limit.
fn speed_unlimited(blocks: Blocks) -> impl AsyncRead + AsyncWrite + Unpin + 'static {
    <Limiter<StandardClock>>::new(f64::INFINITY).limit(blocks)
}

/// async-speed-limit's, with a limit that is never reached.
fn speed_never_binding(blocks: Blocks) -> impl AsyncRead + AsyncWrite + Unpin + 'static {
    <Limiter<StandardClock>>::new(1e15).limit(blocks)
}
